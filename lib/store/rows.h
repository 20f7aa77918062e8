#pragma once
#include <cstdint>
#include <memory_resource>
#include <span>

#include "base/error.h"
#include "kernels/rows.h"
#include "kvc/types.h"
#include "seq/shape.h"
#include "store/part.h"

/// kvc_rows as the store understands it: checked, every default filled in.
namespace kvc::store {

/// One side (K or V) of a run in the caller's memory.
struct Side {
  bool present = false;
  kernels::RowsSide rows;  // of the run's first layer, first head; only its dtype when it is not present
  uint64_t layer_stride = 0;
  uint32_t dim = 0;                       // elements of a head
  uint64_t span_begin = 0, span_end = 0;  // addresses that the run touches lie in [begin, end)

  /// From a layer and a row of the run on.
  kernels::RowsSide from(uint32_t layer, uint64_t row) const {
    kernels::RowsSide out = rows;
    out.data += layer * layer_stride;
    out.slot_begin += row;
    return out;
  }
};

struct Run {
  uint32_t layer_begin = 0, layer_count = 0, head_begin = 0, head_count = 0;  // of the part
  uint64_t token_begin = 0, token_count = 0;  // of a list: token_count rows in all
  uint64_t row_count = 0;                     // in the caller's memory: token_count, of a state layer 1
  const uint64_t *token_list = nullptr;       // gather: entries of token_unit tokens
  uint32_t token_unit = 1;
  const seq::LayerRun *layers = nullptr;
  uint32_t layer_shift = 0, head_shift = 0;  // what the part's first layer and head are in the model: for messages
  Side k, v;
  bool one_row = false;  // of a latent layer: k and v are the two parts of one array

  uint64_t token_end() const { return token_begin + token_count; }
  uint32_t named(uint32_t layer) const { return layer + layer_shift; }
  const Side &side(SideKind kind) const { return kind == SideKind::k ? k : v; }
};

enum class Direction { append, gather };

/// Checks `rows` (a complete struct) against the part of a shape: ranges, dtype, every stride, every block that is touched, and that no two elements
/// of K, or of V, share an address (a source may name a block twice).  `filled` gives filled(layer) for KVC_ALL; positions are not compared with it
/// here.  `out` is new.  ARGUMENT, RANGE, SHAPE, UNSUPPORTED, TOO_NEW.
[[nodiscard]] kvc_status resolve_run(Run &out, const kvc_rows &rows, const Part &part, Direction direction,
                                     std::span<const uint64_t> filled, std::pmr::memory_resource *scratch, base::Error &error);

/// Which rows, not where they lie: the arrays, blocks and slots of `rows` are not looked at.
[[nodiscard]] kvc_status resolve_place(Run &out, const kvc_rows &rows, const Part &part, std::span<const uint64_t> filled, base::Error &error);

/// What an append that took these rows has done: to where the last of its runs goes, and the bytes that were the caller's.
void tell_appended(kvc_result &result, std::span<const kvc_rows> rows, const Part &part);

/// Destinations may not share elements either: K and V of a run, runs of one call.  O(n log n) for n runs that lie apart or step alike.
[[nodiscard]] kvc_status check_runs_apart(std::span<const Run> runs, std::pmr::memory_resource *scratch, base::Error &error);

}  // namespace kvc::store
