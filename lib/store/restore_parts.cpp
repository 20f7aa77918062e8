#include <algorithm>
#include <cstring>

#include "store/page_sums.h"
#include "store/restoring.h"

/// Frames of a save file that become the rows of a chunk, or of a piece.
namespace kvc::store {

namespace {

/// Rows that stand close together in a frame go to their places in the page.
void unpack_page(const uint8_t *frame, const SavedPage &page, const ChunkLayout &layout, uint8_t *slot) {
  for (const SideKind kind : {SideKind::k, SideKind::v}) {
    const kernels::PageSide side = layout.side(slot, page.layer, kind);
    const uint64_t row_bytes = uint64_t{side.dim} * kernels::dtype_bytes(side.dtype), rows_bytes = row_bytes * page.rows;
    const uint8_t *from = frame + (kind == SideKind::k ? uint64_t{codec::frame_header_bytes} : page.v_offset());
    for (uint32_t h = 0; h < page.layers->kv_heads; h++) std::memcpy(side.data + row_bytes * (uint64_t{h} * side.page_tokens + page.first), from + h * rows_bytes, rows_bytes);
  }
}

}  // namespace

kvc_status Store::Restoring::read_part(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error) {
  const SavedPart &at = table.part(part);
  KVC_TRY(at.is_open ? read_open(open, layout, part, error) : read_sealed(open, layout, part, error));
  return read_gap(at.offset + at.bytes, table.part_end(part), table.chunk_of_part(part), error);
}

/// All pages with one read, straight to where they stay.
kvc_status Store::Restoring::read_sealed(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error) {
  vectors.clear();
  (void)table.each_page(part, [&](const SavedPage &page) -> kvc_status {
    const uint64_t l = page.layer;
    vectors.push_back({headers.data() + l * codec::frame_header_bytes, codec::frame_header_bytes});
    vectors.push_back({open.data + layout.page(page.layer).k_offset, layout.page(page.layer).padded_bytes()});
    vectors.push_back({tails.data() + l * SavedPage::frame_align, page.frame_bytes() - page.data_end()});
    return KVC_OK;
  });
  if (!vectors.empty()) KVC_TRY(file.read_at(vectors, table.part(part).offset, error));
  const SavedChunk &chunk = table.chunks[table.chunk_of_part(part)];
  std::copy(chunk.write_id.begin(), chunk.write_id.end(), open.write_id);
  open.has_sisters = true;
  return table.each_page(part, [&](const SavedPage &page) -> kvc_status {
    const ChunkLayout::Page &place = layout.page(page.layer);
    const uint8_t *header = headers.data() + uint64_t{page.layer} * codec::frame_header_bytes, *k = open.data + place.k_offset, *v = open.data + place.v_offset;
    KVC_TRY(check_frame(table, page, header, k, v, error));
    KVC_TRY(check_zero(page.chunk, k + page.k_bytes, static_cast<uint64_t>(v - k) - page.k_bytes, error));
    KVC_TRY(check_zero(page.chunk, v + page.v_bytes, codec::padded(page.v_bytes) - page.v_bytes, error));
    KVC_TRY(check_zero(page.chunk, tails.data() + uint64_t{page.layer} * SavedPage::frame_align, page.frame_bytes() - page.data_end(), error));
    codec::FrameHeader found;
    KVC_TRY(codec::frame_decode(found, header, page.data_end(), error));
    *page_sums(open.data, layout, page.layer) = {found.sections[codec::section_k_exact].sum, found.sections[second_section(*page.layers)].sum, 1};
    return KVC_OK;
  });
}

kvc_status Store::Restoring::read_open(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error) {
  uint64_t at = table.part(part).offset;
  return table.each_page(part, [&](const SavedPage &page) -> kvc_status {
    packed.resize(std::max<size_t>(packed.size(), page.frame_bytes()));
    KVC_TRY(file.read_at(packed.data(), page.frame_bytes(), at, error));
    KVC_TRY(check_whole_frame(table, page, packed.data(), error));
    unpack_page(packed.data(), page, layout, open.data);
    if (page.rows == layout.chunk_tokens()) sum_page(open.data, layout, page.layer);
    at += page.frame_bytes();
    return KVC_OK;
  });
}

}  // namespace kvc::store
