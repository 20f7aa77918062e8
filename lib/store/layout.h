#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "codec/frame.h"
#include "kernels/rows.h"
#include "seq/shape.h"

namespace kvc::store {

enum class SideKind { k, v };

/// Where everything of a chunk lies in its slot: pages by layer, each K then V or what stands in its place (exact, head-major, on 64 B), then the frame headers by
/// layer, then how many token ids are known and the ids.  Open rows use the same places, so sealing moves nothing.
class ChunkLayout {
 public:
  explicit ChunkLayout(std::pmr::memory_resource *resource) : pages_(resource) {}
  void init(const seq::Shape &shape);

  struct Page {
    uint64_t k_offset, v_offset;
    uint32_t k_bytes, v_bytes;
    const seq::LayerRun *layers;

    uint64_t padded_bytes() const { return v_offset - k_offset + codec::padded(v_bytes); }
  };
  const Page &page(uint32_t layer) const { return pages_[layer]; }
  uint64_t header_offset(uint32_t layer) const { return headers_offset_ + static_cast<uint64_t>(layer) * codec::frame_header_bytes; }
  /// u32 count, then i32 ids.
  uint64_t ids_offset() const { return ids_offset_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint32_t layer_count() const { return static_cast<uint32_t>(pages_.size()); }
  uint32_t chunk_tokens() const { return chunk_tokens_; }

  kernels::PageSide side(uint8_t *slot, uint32_t layer, SideKind kind) const;

 private:
  std::pmr::vector<Page> pages_;
  uint64_t headers_offset_ = 0, ids_offset_ = 0, slot_bytes_ = 0, payload_bytes_ = 0;
  uint32_t chunk_tokens_ = 0;
};

}  // namespace kvc::store
