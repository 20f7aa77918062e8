#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "codec/frame.h"
#include "kernels/rows.h"

/// The bytes in front of the frames of an object that was put with a layout: lib/README.md, "Objects with a layout".
namespace kvc::codec {

/// One side (K, or V) of the value: where its element (layer l, token t, head h, dim d) lies,
///     offset + l * layer_stride + t * token_stride + h * head_stride + d / dim_group * dim_stride + d % dim_group * e.  dim 0: absent.
struct ObjectSide {
  uint64_t offset, layer_stride, token_stride, head_stride, dim_stride;
  uint32_t dim, dim_group, dtype, zero;

  uint64_t row_bytes() const { return dim ? uint64_t{dim} * kernels::dtype_bytes(kernels::Dtype{dtype}) : 0; }
};

/// The 256 bytes as they lie, little-endian.
struct ObjectRecord {
  uint64_t magic;
  uint16_t version, record_bytes;
  uint32_t flags;
  std::array<uint8_t, 32> name;
  uint64_t value_bytes, shape_tag;
  uint32_t layer_begin, layer_count, head_begin, head_count;
  uint64_t token_count;
  uint32_t page_tokens, v_dim;  // tokens of a frame (the last ones may be fewer); the V width in frame headers, 0 when V is a latent's rope part
  ObjectSide k, v;
  uint8_t zero[40];
  uint64_t sum;

  /// Frames lie by token, then by layer.  All but those of the last tokens are of equal size.
  uint64_t frame_bytes(uint64_t tokens) const {
    return frame_header_bytes + padded(head_count * tokens * k.row_bytes()) + padded(head_count * tokens * v.row_bytes());
  }
  uint64_t frames_bytes() const {
    const uint64_t rest = token_count % page_tokens;
    return layer_count * (token_count / page_tokens * frame_bytes(page_tokens) + (rest ? frame_bytes(rest) : 0));
  }
};
constexpr uint32_t object_record_bytes = 256;
static_assert(sizeof(ObjectSide) == 56 && sizeof(ObjectRecord) == object_record_bytes && offsetof(ObjectRecord, value_bytes) == 48 &&
              offsetof(ObjectRecord, layer_begin) == 64 && offsetof(ObjectRecord, k) == 96 && offsetof(ObjectRecord, v) == 152 &&
              offsetof(ObjectRecord, sum) == 248);

/// Sets magic, version, sizes, flags and the sum; the rest is the caller's.
void object_record_seal(ObjectRecord &record);
/// CORRUPT: not such a record, or its sum is wrong.  VERSION: of another version.
[[nodiscard]] kvc_status object_record_check(const ObjectRecord &record, base::Error &error);

}  // namespace kvc::codec
