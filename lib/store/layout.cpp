#include "store/layout.h"

#include <algorithm>

namespace kvc::store {

static_assert(static_cast<uint32_t>(kernels::Dtype::f32) == KVC_F32 && static_cast<uint32_t>(kernels::Dtype::f16) == KVC_F16 &&
              static_cast<uint32_t>(kernels::Dtype::bf16) == KVC_BF16 && static_cast<uint32_t>(kernels::Dtype::f8_e4m3) == KVC_F8_E4M3 &&
              static_cast<uint32_t>(kernels::Dtype::u8) == KVC_U8);

void ChunkLayout::init(const seq::Shape &shape, Piece piece, uint64_t head_bytes) {
  chunk_tokens_ = shape.chunk_tokens;
  pages_.reserve(shape.layer_count);
  all_present_ = piece == Piece::main && std::all_of(shape.runs.begin(), shape.runs.end(), [](const seq::LayerRun &run) { return run.kv_heads && piece_of(run.kind) == Piece::main; });
  if (!all_present_) ordinals_.reserve(shape.layer_count);
  uint64_t at = head_bytes;
  uint32_t present = 0;
  for (const seq::LayerRun &run : shape.runs) {
    const uint64_t rows = piece_of(run.kind) == piece ? static_cast<uint64_t>(run.kv_heads) * run.page_rows(shape.chunk_tokens) : 0;
    const uint64_t k_bytes = rows * run.k_row_bytes(), v_bytes = rows * run.v_row_bytes();
    for (uint32_t i = 0; i < run.layer_count; i++) {
      pages_.push_back({at, at + codec::padded(k_bytes), static_cast<uint32_t>(k_bytes), static_cast<uint32_t>(v_bytes), &run});
      if (!all_present_) ordinals_.push_back(present);
      present += rows != 0;
      at += codec::padded(k_bytes) + codec::padded(v_bytes);
      payload_bytes_ += k_bytes + v_bytes;
    }
  }
  headers_offset_ = at;
  ids_offset_ = at + uint64_t{present} * codec::frame_header_bytes;
  if (piece != Piece::main) slot_bytes_ = ids_offset_ + present * sizeof(uint32_t);
  else slot_bytes_ = write_id_offset() + (all_present_ ? 0 : write_id_bytes);
}

kernels::PageSide ChunkLayout::side(uint8_t *slot, uint32_t layer, SideKind kind) const {
  const Page &p = pages_[layer];
  const uint32_t rows = p.layers->page_rows(chunk_tokens_);
  if (kind == SideKind::k) return {slot + p.k_offset, static_cast<kernels::Dtype>(p.layers->k_stored()), p.layers->k_dim, rows};
  return {slot + p.v_offset, static_cast<kernels::Dtype>(p.layers->v_stored()), p.layers->second_dim(), rows};
}

}  // namespace kvc::store
