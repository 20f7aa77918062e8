#pragma once
#include "store/layout.h"

namespace kvc::store {

/// The sums of a page of open rows, kept where its frame header will be written: a page that came whole was summed on the way in, one that
/// grew row by row when its last row came.
struct PageSums {
  uint64_t k, v;
  uint32_t valid;
};

inline PageSums *page_sums(uint8_t *slot, const ChunkLayout &layout, uint32_t layer) {
  return reinterpret_cast<PageSums *>(slot + layout.header_offset(layer));
}

inline void sum_page(uint8_t *slot, const ChunkLayout &layout, uint32_t layer) {
  const ChunkLayout::Page &page = layout.page(layer);
  const kernels::Table &kernel = kernels::table();
  *page_sums(slot, layout, layer) = {kernel.sum(slot + page.k_offset, page.k_bytes), page.v_bytes ? kernel.sum(slot + page.v_offset, page.v_bytes) : 0, 1};
}

}  // namespace kvc::store
