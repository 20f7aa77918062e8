#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "codec/frame.h"
#include "kernels/rows.h"
#include "seq/shape.h"

namespace kvc::store {

constexpr uint32_t write_id_bytes = 16;

enum class SideKind { k, v };

/// A chunk is held in pieces, each a slot of its own: what a prefix is matched by (full and latent layers), the rows of window layers, and the
/// snapshots at its end.  A model without window and state layers has main pieces alone.
enum class Piece { main, window, state };
constexpr Piece piece_of(uint32_t layer_kind) {
  return layer_kind == KVC_LAYER_WINDOW ? Piece::window : layer_kind == KVC_LAYER_STATE ? Piece::state : Piece::main;
}

/// Where everything of a piece lies in its slot: pages by layer, each K then V or what stands in its place (exact, head-major, on 64 B), then the frame headers by
/// layer, then of a main piece how many token ids are known and the ids, of another a mark for each of its layers.  Open rows use the same
/// places, so sealing moves nothing.
class ChunkLayout {
 public:
  explicit ChunkLayout(std::pmr::memory_resource *resource) : pages_(resource), ordinals_(resource) {}
  /// Of the layers that are in this piece; the others, and those without heads, have no page in it.  `head_bytes` in front are somebody else's.
  void init(const seq::Shape &shape, Piece piece = Piece::main, uint64_t head_bytes = 0);

  struct Page {
    uint64_t k_offset, v_offset;
    uint32_t k_bytes, v_bytes;
    const seq::LayerRun *layers;

    bool present() const { return k_bytes != 0; }
    uint64_t padded_bytes() const { return v_offset - k_offset + codec::padded(v_bytes); }
  };
  const Page &page(uint32_t layer) const { return pages_[layer]; }
  uint64_t header_offset(uint32_t layer) const { return headers_offset_ + uint64_t{all_present_ ? layer : ordinals_[layer]} * codec::frame_header_bytes; }
  /// u32 count, then i32 ids.
  uint64_t ids_offset() const { return ids_offset_; }
  /// 16 bytes behind the ids, where the shape has other pieces too: what they must be signed with.
  uint64_t write_id_offset() const { return ids_offset_ + (uint64_t{chunk_tokens_} + 1) * sizeof(int32_t); }
  /// Of a window piece: the first row that is held; chunk_tokens: none.  Of a state piece: 1 if the snapshot is there.
  uint32_t &mark(uint8_t *slot, uint32_t layer) const { return reinterpret_cast<uint32_t *>(slot + ids_offset_)[ordinals_[layer]]; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint32_t layer_count() const { return static_cast<uint32_t>(pages_.size()); }
  uint32_t chunk_tokens() const { return chunk_tokens_; }

  kernels::PageSide side(uint8_t *slot, uint32_t layer, SideKind kind) const;

 private:
  std::pmr::vector<Page> pages_;
  uint64_t headers_offset_ = 0, ids_offset_ = 0, slot_bytes_ = 0, payload_bytes_ = 0;
  uint32_t chunk_tokens_ = 0;
  bool all_present_ = true;
  std::pmr::vector<uint32_t> ordinals_;  // among the layers of the piece, where not all are
};

}  // namespace kvc::store
