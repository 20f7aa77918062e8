#pragma once
#include <cstddef>
#include <cstdint>

/// Moving rows between a page and a caller's memory, and the sum of what was moved.  Pure arithmetic on spans: arguments have been checked.
namespace kvc::kernels {

/// Element types, equal to the public constants (asserted in lib/store/layout.cpp).
enum class Dtype : uint32_t { f32 = 1, f16 = 2, bf16 = 3, f8_e4m3 = 4, u8 = 5 };
constexpr uint32_t dtype_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : dtype == Dtype::f16 || dtype == Dtype::bf16 ? 2 : 1; }

/// One side (K or V) of a page: [head][token][dim], packed.  head_count, dim and page_tokens are those of the page as stored.
struct PageSide {
  uint8_t *data;
  Dtype dtype;
  uint32_t dim;
  uint32_t page_tokens;
};

/// The caller's side, all strides resolved, in bytes.  Token i of a move lies in slot s = slot_begin + i:
///     data + block(s) * block_stride + in_block(s) * token_stride + head * head_stride + (d / dim_group) * dim_stride + d % dim_group * e
/// with block(s) = blocks[s / block_tokens], in_block(s) = s % block_tokens; without blocks block(s) = 0 and in_block(s) = s.
/// head counts from the first head of the move.  No alignment is promised.
struct RowsSide {
  uint8_t *data;
  Dtype dtype;
  uint32_t dim_group;
  uint64_t token_stride, head_stride, dim_stride;
  const int32_t *blocks;  // nullptr: none
  uint64_t block_stride;
  uint32_t block_tokens;
  uint64_t slot_begin;
};

/// Which rows of the page: tokens [token_begin, +token_count), heads [head_begin, +head_count).
struct Move {
  uint32_t token_begin, token_count, head_begin, head_count;
  /// Large moves: stores that bypass the cache, and prefetch.  The functions end with the fence that makes them visible.
  bool stream;
  /// Another streamed move follows before anybody looks: that one brings the fence.
  bool more = false;
};

/// From how many bytes a gather sets `stream`, counted over everything that the call moves, not one page.  Measured on a server core with
/// 2 MiB of second-level cache (README.md): a destination in the engine's or the host's memory may still be in cache from the last call,
/// and then plain stores are faster until it outgrows that cache.
constexpr uint64_t stream_bytes_min = 1u << 20;
/// The same for appends whose rows are no whole lines; those that are stream always.  Pages are not in cache and nobody reads them soon;
/// past it is faster from 16 KiB, and from 64 KiB even when they are read back at once.
constexpr uint64_t stream_in_bytes_min = 1u << 16;

/// Functions chosen once for this machine (base, avx2, avx512; neon later); every entry gives the same bits in every variant.
/// Conversions: f32, f16, bf16 in any pair, round to nearest even, NaN stays NaN (payload may be cut, quiet bit set; equal dtypes are
/// copied bit for bit), overflow to infinity, subnormals kept.  f8_e4m3 and u8 only to themselves.
struct Table {
  const char *name;  // "base", "avx2", "avx512"
  /// page -> caller (kvc_gather)
  void (*rows_out)(const RowsSide &to, const PageSide &from, const Move &move);
  /// caller -> page (kvc_append)
  void (*rows_in)(const PageSide &to, const RowsSide &from, const Move &move);
  /// caller -> page for a whole page (all tokens, all heads): the same, and returns the XXH3-64 (seed 0) of the page side as it now is,
  /// computed while the bytes are in cache.
  uint64_t (*rows_in_sum)(const PageSide &to, const RowsSide &from, uint32_t head_count, bool stream);
  /// XXH3-64, seed 0.
  uint64_t (*sum)(const void *data, size_t size);
  /// Plain copy.  With a `next`, any address, it passes the cache by and fetches the lines there meanwhile; fence() ends a series of those.
  void (*copy)(void *to, const void *from, size_t size, const void *next);
  void (*fence)();
  /// The same, and returns the XXH3-64 (seed 0) of the bytes.
  uint64_t (*copy_sum)(void *to, const void *from, size_t size, const void *next);
};

/// The best table of this machine.
const Table &table();
/// A named one, nullptr if this machine cannot run it: tests compare all of them with the scalar reference.
const Table *table_named(const char *name);
/// Can rows of these dtypes be moved into each other?
bool convertible(Dtype a, Dtype b);

}  // namespace kvc::kernels
