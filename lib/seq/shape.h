#pragma once
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "kvc/store.h"

namespace kvc::seq {

/// A run of equal layers with every default filled in.  Members a kind does not use are 0 (window of full, latent and state layers,
/// rope_dim of all but latent ones, v_dim of latent ones); dtypes are never 0: an absent part (latent without a rope part, state without a
/// second blob) carries the shape's.  A page has two parts: K, and the other one - V, a latent page's rope part, a state's second blob.
struct LayerRun {
  uint32_t layer_begin, layer_count;  // absolute
  uint32_t kind, kv_heads, k_dim, v_dim, rope_dim, window, k_dtype, v_dtype;

  /// Bytes of one head's row (one token; of a state layer: of the whole snapshot, whose dims are bytes whatever its dtype says).
  uint64_t k_row_bytes() const;
  /// The same of the other part; 0 if it is absent.
  uint64_t v_row_bytes() const;
  /// Elements of that part in a head's row.
  uint32_t second_dim() const { return kind == KVC_LAYER_LATENT ? rope_dim : v_dim; }
  /// What its elements are stored as: a state's are bytes.
  uint32_t k_stored() const { return kind == KVC_LAYER_STATE ? uint32_t{KVC_U8} : k_dtype; }
  uint32_t v_stored() const { return kind == KVC_LAYER_STATE ? uint32_t{KVC_U8} : v_dtype; }
  /// Is every query's view of it all that came before?  What such layers hold decides how long a prefix is.
  bool keeps_all() const { return kind == KVC_LAYER_FULL || kind == KVC_LAYER_LATENT; }
  /// Rows of a head in a page: chunk_tokens, in state layers 1.
  uint32_t page_rows(uint32_t chunk_tokens) const { return kind == KVC_LAYER_STATE ? 1 : chunk_tokens; }
};

/// A checked shape: what a page of each layer is.
struct Shape {
  uint32_t dtype = 0, chunk_tokens = 0, rope = 0, layer_count = 0;
  std::vector<LayerRun> runs;  // adjacent equal runs merged
  base::Digest fingerprint{};
  uint64_t token_bytes = 0, chunk_bytes = 0, state_bytes = 0;  // of kvc_shape_info; state layers are in state_bytes alone

  /// `layer` is below layer_count.
  const LayerRun &run_of(uint32_t layer) const;
};

constexpr uint32_t layers_max = 65535, kv_heads_max = 128, dim_max = 65535, chunk_tokens_max = 256;
constexpr uint64_t part_bytes_max = 0xFFFFFFFFu;  // a section's length is a u32

/// Validates and completes (all four layer kinds, every rule of the header; limits: 1..65535 layers in all, kv_heads 1..128 (format.md:
/// head_count <= 128), dims 1..65535 (state: bytes, limited by the part alone), chunk_tokens 16..256 a multiple of 16, each part of a page
/// at most 4 GiB - 1, from which no byte count can overflow 64 bits; dtype F32, F16, BF16, F8_E4M3; U8 only in state layers).
/// SHAPE with a message that names the run and the member; `out` is written on success only.
[[nodiscard]] kvc_status shape_check(Shape &out, const kvc_shape &shape, base::Error &error);

}  // namespace kvc::seq
