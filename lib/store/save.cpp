#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "seq/flags_of.h"
#include "store/save_file.h"
#include "store/save_pieces.h"
#include "store/slices.h"
#include "store/store.h"

/// A sequence on its way into a file.  Every page is checked before it is written: what cannot be restored is not saved.
namespace kvc::store {

using base::fail;

namespace {

kvc_status fail_page(uint32_t layer, uint64_t token, Error &error) {
  return fail(error, KVC_ERR_GONE, "layer %u: the page at token %llu failed its check and was dropped", layer, static_cast<unsigned long long>(token));
}

}  // namespace

/// Of a held chunk: what its first page was signed with.
kvc_status Store::write_id_of(std::array<uint8_t, 16> &out, const Sequence &seq, uint64_t chunk, Ref held, Error &error) {
  const seq::Node &node = index_->node(held);
  uint8_t *const slot = slot_data(node);
  const Part &part = seq::flags_of(node) & seq::node_sliced ? *Slice::in(slot)->part : static_cast<const Part &>(*seq.scope);
  const ChunkLayout &layout = part.layout;
  uint32_t layer = 0;
  while (layer < layout.layer_count() && !layout.page(layer).present()) layer++;
  if (layer == layout.layer_count()) {  // it has none
    std::copy_n(chunk_write_id(*seq.scope, node), out.size(), out.begin());
    return KVC_OK;
  }
  codec::FrameHeader first;
  if (codec::frame_decode(first, slot + layout.header_offset(layer), codec::frame_header_bytes + layout.page(layer).padded_bytes(), error) != KVC_OK && verify_page(part, held, slot, layer, error) != KVC_OK)
    return fail_page(layer + part.layer_begin, chunk * seq.chunk_tokens(), error);
  out = first.write_id;
  return KVC_OK;
}

/// What the file says of a sealed chunk; its ids are those of its name.
kvc_status Store::describe_chunk(SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error) {
  uint8_t *slot;
  KVC_TRY(chunk_data(&slot, seq, chunk, error));
  KVC_TRY(check_ids(seq, chunk, error));
  const seq::Node &node = index_->node(seq.table->refs[chunk]);
  SavedChunk &saved = table.chunks[chunk];
  // Whose name was taken away (kvc_scope_clear) is its holder's alone, and so is the file, with all that comes behind.
  if (!(seq::flags_of(node) & seq::node_unnamed) && (chunk == 0 || table.chunks[chunk - 1].is_named())) saved.name = node.name;
  else table.is_private = true;
  KVC_TRY(write_id_of(saved.write_id, seq, chunk, seq.table->refs[chunk], error));
  saved.awaits = seq.pieces && std::binary_search(seq.pieces->pending.begin(), seq.pieces->pending.end(), chunk);
  const uint64_t begin = chunk * seq.chunk_tokens(), known = std::min<uint64_t>(seq.given > begin ? seq.given - begin : 0, seq.chunk_tokens());
  const int32_t *ids = chunk_ids(*seq.scope, node);
  if (static_cast<uint32_t>(ids[0]) < known)
    return fail(error, KVC_ERR_GONE, "the chunk at token %llu has %u token ids of %llu", static_cast<unsigned long long>(begin), static_cast<uint32_t>(ids[0]), static_cast<unsigned long long>(known));
  table.ids.insert(table.ids.end(), ids + 1, ids + 1 + known);
  return KVC_OK;
}

/// The same of a complete chunk that waits for its snapshot: it is sealed in the file.
kvc_status Store::describe_waiting(SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error) {
  const OpenChunk &open = *seq.open[chunk - seq.sealed];
  const uint64_t chunk_tokens = seq.chunk_tokens();
  SavedChunk &saved = table.chunks[chunk];
  if (seq.is_private || (chunk && !table.chunks[chunk - 1].is_named())) {
    table.is_private = true;
  } else {
    seq::ChunkNamer namer;
    saved.name = namer.next(chunk ? table.chunks[chunk - 1].name : seq.root, seq.ids.data(), static_cast<uint32_t>(chunk_tokens), chunk * chunk_tokens, seq.extras.all());
  }
  if (open.held) return write_id_of(saved.write_id, seq, chunk, open.held, error);
  std::copy(std::begin(open.write_id), std::end(open.write_id), saved.write_id.begin());
  saved.awaits = true;
  return KVC_OK;
}

/// A page of a chunk or piece that is held, wherever its heads lie; GONE when it fails its check now.
kvc_status Store::check_held_page(const Sequence &seq, Ref held, uint32_t layer, uint64_t token, Error &error) {
  const seq::Node &node = index_->node(held);
  const uint32_t number = layer + seq.part->layer_begin, first = seq.part->head_begin_of(layer), end = first + seq.part->shape.run_of(layer).kv_heads;
  if (!is_sliced(seq, held)) return verify_page(*seq.part, held, slot_data(node), layer, error) == KVC_OK ? KVC_OK : fail_page(number, token, error);
  for (uint32_t head = first; head < end;) {
    const SlicePage page = page_in(*seq.scope, node, number, head);
    KVC_CHECK(page.part);
    if (verify_page(*page.part, held, page.slot, page.layer, error) != KVC_OK) return fail_page(number, token, error);
    head += page.head_count;
  }
  return KVC_OK;
}

kvc_status Store::describe(SaveTable &table, PiecesOut &out, const Sequence &seq, Error &error) {
  table.scope = seq.scope->name;
  table.shape = seq.part->shape;
  if (!seq.part->is_whole()) table.range = seq.part->range(), table.model = seq.scope->shape;
  table.list_layers();
  table.is_private = seq.is_private;
  table.length = seq.length, table.first_position = seq.first_position, table.truncated_to = seq.truncated_to;
  table.filled = seq.filled;
  table.extras = seq.extras;
  table.chunks.resize(seq.sealed);
  table.ids.reserve(seq.given);
  for (uint64_t c = 0; c < seq.sealed; c++) KVC_TRY(describe_chunk(table, seq, c, error));
  if (table.sealed() > seq.sealed) {
    table.chunks.resize(seq.sealed + 1);
    KVC_TRY(describe_waiting(table, seq, seq.sealed, error));
  }
  table.ids.insert(table.ids.end(), seq.ids.begin(), seq.ids.end());
  if (seq.pieces) KVC_TRY(describe_pieces(table, out, seq, error));
  table.place();
  return KVC_OK;
}

namespace {

/// The header of a sealed page as it is in the file.
const uint8_t *page_header(std::pmr::vector<uint8_t> &rewritten, const SaveTable &table, const SavedPage &page, const ChunkLayout &layout, const uint8_t *slot) {
  const uint8_t *header = slot + layout.header_offset(page.layer);
  if (page.named_by->is_named() && page.layers->keeps_all()) return header;
  uint8_t *to = rewritten.data() + uint64_t{page.layer} * codec::frame_header_bytes;
  Error none;
  codec::FrameHeader found;
  KVC_CHECK(codec::frame_decode(found, header, page.data_end(), none) == KVC_OK);  // it was checked just now
  codec::frame_encode(to, saved_header(table, page, found.sections[codec::section_k_exact].sum, found.sections[second_section(*page.layers)].sum));
  return to;
}

}  // namespace

/// The frame of rows that do not stand in the file as they lie, close together.
void Store::pack_page(uint8_t *to, const SaveTable &table, const SavedPage &page, const Sequence &seq, uint8_t *slot, Ref held) const {
  std::memset(to, 0, page.frame_bytes());
  uint8_t *const begins[] = {to + codec::frame_header_bytes, to + page.v_offset()};
  for (const SideKind kind : {SideKind::k, SideKind::v}) {
    const uint64_t row_bytes = kind == SideKind::k ? page.layers->k_row_bytes() : page.layers->v_row_bytes(), rows_bytes = row_bytes * page.rows, left_out = row_bytes * page.left_out;
    for (uint32_t h = 0; rows_bytes && h < page.layers->kv_heads; h++)
      std::memcpy(begins[kind == SideKind::v] + h * rows_bytes + left_out, head_rows(seq, held, slot, page.layer, kind, h) + row_bytes * page.first + left_out, rows_bytes - left_out);
  }
  const kernels::Table &kernel = kernels::table();
  codec::frame_encode(to, saved_header(table, page, kernel.sum(begins[0], page.k_bytes), page.v_bytes ? kernel.sum(begins[1], page.v_bytes) : 0));
}

/// The rows of a chunk or piece are those of `held`, or in a slot that no frame was made of yet.
kvc_status Store::save_page(SaveWriter &writer, const SaveTable &table, const SavedPage &page, const Sequence &seq, uint8_t *slot, Ref held, Error &error) {
  const uint64_t begin = writer.end();
  if (held) KVC_TRY(check_held_page(seq, held, page.layer, page.chunk * seq.chunk_tokens(), error));
  if (page.is_open || !held || is_sliced(seq, held)) {
    KVC_TRY(writer.flush(error));
    writer.scratch.resize(std::max<size_t>(writer.scratch.size(), page.frame_bytes()));
    pack_page(writer.scratch.data(), table, page, seq, slot, held);
    KVC_TRY(writer.add(writer.scratch.data(), page.frame_bytes(), error));
    return writer.flush(error);
  }
  const ChunkLayout &layout = seq.part->layout_of_layer(page.layer);
  KVC_TRY(writer.add(page_header(writer.headers, table, page, layout, slot), codec::frame_header_bytes, error));
  KVC_TRY(writer.add(slot + layout.page(page.layer).k_offset, page.k_bytes, error));
  KVC_TRY(writer.fill(begin + page.v_offset(), error));
  KVC_TRY(writer.add(slot + layout.page(page.layer).v_offset, page.v_bytes, error));
  return writer.fill(begin + page.frame_bytes(), error);
}

kvc_status Store::save_chunk(SaveWriter &writer, const SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error) {
  KVC_TRY(writer.fill(table.chunks[chunk].offset, error));
  const kvc_status status = table.each_page(chunk, [&](const SavedPage &page) -> kvc_status {
    uint8_t *slot;
    KVC_TRY(chunk_data(&slot, seq, chunk, error));
    return save_page(writer, table, page, seq, slot, chunk < seq.sealed ? seq.table->refs[chunk] : seq.open[chunk - seq.sealed]->held, error);
  });
  if (status != KVC_OK) return status;
  return table.chunks[chunk].is_named() ? KVC_OK : writer.flush(error);
}

kvc_status Store::save(const Sequence &seq, const char *path, Error &error) {
  KVC_TRY(check_left(seq, *std::max_element(seq.filled.begin(), seq.filled.end()), error));
  SaveTable table(&resource_);
  PiecesOut out(*this);
  KVC_TRY(describe(table, out, seq, error));
  std::pmr::vector<uint8_t> bytes(&resource_);
  save_table_encode(bytes, table);
  const auto trailer = save_trailer(bytes);

  io::Replacement file(files_, path);
  KVC_TRY(file.begin(table.file_bytes(), error));
  SaveWriter writer(file, &resource_);
  if (table.is_private || seq.pieces) writer.headers.resize(uint64_t{seq.part->layout.layer_count()} * codec::frame_header_bytes);
  KVC_TRY(writer.add(bytes.data(), bytes.size(), error));
  for (uint64_t c = 0; c < table.chunks.size(); c++) KVC_TRY(save_chunk(writer, table, seq, c, error));
  for (size_t i = 0; i < table.pieces.size(); i++) KVC_TRY(save_piece(writer, table, seq, i, out, error));
  KVC_TRY(writer.fill(table.trailer_at, error));
  KVC_TRY(writer.add(trailer.data(), trailer.size(), error));
  KVC_TRY(writer.flush(error));
  return file.commit(error);
}

}  // namespace kvc::store
