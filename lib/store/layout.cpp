#include "store/layout.h"

namespace kvc::store {

static_assert(static_cast<uint32_t>(kernels::Dtype::f32) == KVC_F32 && static_cast<uint32_t>(kernels::Dtype::f16) == KVC_F16 &&
              static_cast<uint32_t>(kernels::Dtype::bf16) == KVC_BF16 && static_cast<uint32_t>(kernels::Dtype::f8_e4m3) == KVC_F8_E4M3 &&
              static_cast<uint32_t>(kernels::Dtype::u8) == KVC_U8);

void ChunkLayout::init(const seq::Shape &shape) {
  chunk_tokens_ = shape.chunk_tokens;
  pages_.reserve(shape.layer_count);
  uint64_t at = 0;
  for (const seq::LayerRun &run : shape.runs) {
    const uint64_t rows = static_cast<uint64_t>(run.kv_heads) * run.page_rows(shape.chunk_tokens);
    const uint64_t k_bytes = rows * run.k_row_bytes(), v_bytes = rows * run.v_row_bytes();
    for (uint32_t i = 0; i < run.layer_count; i++) {
      pages_.push_back({at, at + codec::padded(k_bytes), static_cast<uint32_t>(k_bytes), static_cast<uint32_t>(v_bytes), &run});
      at += codec::padded(k_bytes) + codec::padded(v_bytes);
      payload_bytes_ += k_bytes + v_bytes;
    }
  }
  headers_offset_ = at;
  ids_offset_ = header_offset(shape.layer_count);
  slot_bytes_ = ids_offset_ + (static_cast<uint64_t>(shape.chunk_tokens) + 1) * sizeof(int32_t);
}

kernels::PageSide ChunkLayout::side(uint8_t *slot, uint32_t layer, SideKind kind) const {
  const Page &p = pages_[layer];
  if (kind == SideKind::k) return {slot + p.k_offset, static_cast<kernels::Dtype>(p.layers->k_dtype), p.layers->k_dim, chunk_tokens_};
  return {slot + p.v_offset, static_cast<kernels::Dtype>(p.layers->v_dtype), p.layers->second_dim(), chunk_tokens_};
}

}  // namespace kvc::store
