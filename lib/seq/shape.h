#pragma once
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "kvc/store.h"

namespace kvc::seq {

/// A run of equal layers with every default filled in.
struct LayerRun {
  uint32_t layer_begin, layer_count;  // absolute
  uint32_t kind, kv_heads, k_dim, v_dim, rope_dim, window, k_dtype, v_dtype;
};

/// A checked shape: what a page of each layer is.
struct Shape {
  uint32_t dtype = 0, chunk_tokens = 0, rope = 0, layer_count = 0;
  std::vector<LayerRun> runs;  // adjacent equal runs merged
  base::Digest fingerprint{};
  uint64_t token_bytes = 0, chunk_bytes = 0, state_bytes = 0;  // of kvc_shape_info

  const LayerRun &run_of(uint32_t layer) const;
};

/// Validates and completes (all four layer kinds, every rule of the header; limits: 1..65535 layers in all, kv_heads 1..128 (format.md: head_count <= 128),
/// dims 1..65535, chunk_tokens 16..256 a multiple of 16, no 64-bit overflow of the byte counts; dtype F32, F16, BF16, F8_E4M3; U8 only in state layers).
/// SHAPE with a message that names the run and the member.
[[nodiscard]] kvc_status shape_check(Shape &out, const kvc_shape &shape, base::Error &error);

}  // namespace kvc::seq
