#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "io/replacement.h"
#include "seq/flags_of.h"
#include "store/save_file.h"
#include "store/store.h"

/// A sequence on its way into a file.  Every page is checked before it is written: what cannot be restored is not saved.
namespace kvc::store {

using base::fail;

namespace {

constexpr uint64_t batch_bytes = 1 << 20;  // what was just read for its sum is still in cache when it is written
alignas(64) constexpr uint8_t zeros[save_align] = {};

}  // namespace

/// Pieces of memory, one behind the other in the file.
class SaveWriter {
 public:
  SaveWriter(io::Replacement &file, std::pmr::memory_resource *resource) : headers(resource), scratch(resource), file_(file) {}
  uint64_t end() const { return end_; }
  [[nodiscard]] kvc_status add(const uint8_t *data, uint64_t bytes, Error &error) {
    if (bytes == 0) return KVC_OK;
    pieces_[count_++] = {const_cast<uint8_t *>(data), bytes};
    end_ += bytes;
    return count_ == pieces_.size() || end_ - at_ >= batch_bytes ? flush(error) : KVC_OK;
  }
  /// Zeros up to `to`, which is less than a page away.
  [[nodiscard]] kvc_status fill(uint64_t to, Error &error) { return add(zeros, to - end_, error); }
  [[nodiscard]] kvc_status flush(Error &error) {
    if (count_ == 0) return KVC_OK;
    KVC_TRY(file_.write_at({pieces_.data(), count_}, at_, error));
    at_ = end_;
    count_ = 0;
    return KVC_OK;
  }
  std::pmr::vector<uint8_t> headers, scratch;  // what is written from them is flushed before they change

 private:
  io::Replacement &file_;
  uint64_t at_ = 0, end_ = 0;
  size_t count_ = 0;
  std::array<iovec, 512> pieces_;
};

/// What the file says of a sealed chunk; its ids are those of its name.
kvc_status Store::describe_chunk(SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error) {
  uint8_t *slot;
  KVC_TRY(chunk_data(&slot, seq, chunk, error));
  KVC_TRY(check_ids(seq, chunk, slot, error));
  const seq::Node &node = index_->node(seq.table->refs[chunk]);
  SavedChunk &saved = table.chunks[chunk];
  // Whose name was taken away (kvc_scope_clear) is its holder's alone, and so is the file, with all that comes behind.
  if (!(seq::flags_of(node) & seq::node_unnamed) && (chunk == 0 || table.chunks[chunk - 1].is_named())) saved.name = node.name;
  else table.is_private = true;
  const uint8_t *header = slot + seq.part->layout.header_offset(0);
  codec::FrameHeader first;
  if (codec::frame_decode(first, header, codec::frame_header_bytes + seq.part->layout.page(0).padded_bytes(), error) != KVC_OK) KVC_TRY(check_held_page(seq, chunk, 0, slot, error));
  saved.write_id = first.write_id;
  const uint64_t begin = chunk * seq.chunk_tokens(), known = std::min<uint64_t>(seq.given > begin ? seq.given - begin : 0, seq.chunk_tokens());
  const auto *ids = reinterpret_cast<const int32_t *>(slot + seq.part->layout.ids_offset());
  if (static_cast<uint32_t>(ids[0]) < known)
    return fail(error, KVC_ERR_GONE, "the chunk at token %llu has %u token ids of %llu", static_cast<unsigned long long>(begin), static_cast<uint32_t>(ids[0]), static_cast<unsigned long long>(known));
  table.ids.insert(table.ids.end(), ids + 1, ids + 1 + known);
  return KVC_OK;
}

/// A page of a chunk that is held; GONE when it fails its check now.
kvc_status Store::check_held_page(const Sequence &seq, uint64_t chunk, uint32_t layer, const uint8_t *slot, Error &error) {
  const Ref held = chunk < seq.sealed ? seq.table->refs[chunk] : seq.open[chunk - seq.sealed]->held;
  if (!held || verify_page(*seq.part, held, slot, layer, error) == KVC_OK) return KVC_OK;
  return fail(error, KVC_ERR_GONE, "layer %u: the page at token %llu failed its check and was dropped", layer, static_cast<unsigned long long>(chunk * seq.chunk_tokens()));
}

kvc_status Store::describe(SaveTable &table, const Sequence &seq, Error &error) {
  table.scope = seq.scope->name;
  table.shape = seq.part->shape;
  table.is_private = seq.is_private;
  table.length = seq.length, table.first_position = seq.first_position, table.truncated_to = seq.truncated_to;
  table.filled = seq.filled;
  table.extras = seq.extras;
  table.chunks.resize(seq.sealed);
  table.ids.reserve(seq.given);
  for (uint64_t c = 0; c < seq.sealed; c++) KVC_TRY(describe_chunk(table, seq, c, error));
  table.ids.insert(table.ids.end(), seq.ids.begin(), seq.ids.end());
  table.place();
  return KVC_OK;
}

namespace {

/// The frame of rows that do not fill their page, close together.
void pack_page(uint8_t *to, const SaveTable &table, uint64_t chunk, const SavedPage &page, const ChunkLayout &layout, uint8_t *slot) {
  std::memset(to, 0, page.frame_bytes());
  uint8_t *const begins[] = {to + codec::frame_header_bytes, to + page.v_offset()};
  for (const SideKind kind : {SideKind::k, SideKind::v}) {
    const kernels::PageSide side = layout.side(slot, page.layer, kind);
    const uint64_t row_bytes = uint64_t{side.dim} * kernels::dtype_bytes(side.dtype), rows_bytes = row_bytes * page.rows;
    for (uint32_t h = 0; h < page.layers->kv_heads; h++)
      std::memcpy(begins[kind == SideKind::v] + h * rows_bytes, side.data + h * row_bytes * side.page_tokens, rows_bytes);
  }
  const kernels::Table &kernel = kernels::table();
  codec::frame_encode(to, saved_header(table, chunk, page, kernel.sum(begins[0], page.k_bytes), page.v_bytes ? kernel.sum(begins[1], page.v_bytes) : 0));
}

/// The header of a sealed page as it is in the file.
const uint8_t *page_header(std::pmr::vector<uint8_t> &rewritten, const SaveTable &table, uint64_t chunk, const SavedPage &page, const ChunkLayout &layout, const uint8_t *slot) {
  const uint8_t *header = slot + layout.header_offset(page.layer);
  if (table.chunks[chunk].is_named()) return header;
  uint8_t *to = rewritten.data() + uint64_t{page.layer} * codec::frame_header_bytes;
  Error none;
  codec::FrameHeader found;
  KVC_CHECK(codec::frame_decode(found, header, page.data_end(), none) == KVC_OK);  // it was checked just now
  codec::frame_encode(to, saved_header(table, chunk, page, found.sections[codec::section_k_exact].sum, found.sections[codec::section_of_second(page.layers->v_dim)].sum));
  return to;
}

}  // namespace

kvc_status Store::save_chunk(SaveWriter &writer, const SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error) {
  const ChunkLayout &layout = seq.part->layout;
  KVC_TRY(writer.fill(table.chunks[chunk].offset, error));
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    const SavedPage page = table.page(l, chunk);
    if (page.rows == 0) continue;
    uint8_t *slot;
    KVC_TRY(chunk_data(&slot, seq, chunk, error));
    KVC_TRY(check_held_page(seq, chunk, l, slot, error));
    const uint64_t begin = writer.end();
    if (table.chunks[chunk].is_open) {
      KVC_TRY(writer.flush(error));
      writer.scratch.resize(std::max<size_t>(writer.scratch.size(), page.frame_bytes()));
      pack_page(writer.scratch.data(), table, chunk, page, layout, slot);
      KVC_TRY(writer.add(writer.scratch.data(), page.frame_bytes(), error));
      KVC_TRY(writer.flush(error));
      continue;
    }
    KVC_TRY(writer.add(page_header(writer.headers, table, chunk, page, layout, slot), codec::frame_header_bytes, error));
    KVC_TRY(writer.add(slot + layout.page(l).k_offset, page.k_bytes, error));
    KVC_TRY(writer.fill(begin + page.v_offset(), error));
    KVC_TRY(writer.add(slot + layout.page(l).v_offset, page.v_bytes, error));
    KVC_TRY(writer.fill(begin + page.frame_bytes(), error));
  }
  return table.chunks[chunk].is_named() ? KVC_OK : writer.flush(error);
}

kvc_status Store::save(const Sequence &seq, const char *path, Error &error) {
  KVC_TRY(check_savable(seq.part->shape, error));
  KVC_TRY(check_left(seq, *std::max_element(seq.filled.begin(), seq.filled.end()), error));
  SaveTable table(&resource_);
  KVC_TRY(describe(table, seq, error));
  std::pmr::vector<uint8_t> bytes(&resource_);
  save_table_encode(bytes, table);
  const auto trailer = save_trailer(bytes);

  io::Replacement file(files_, path);
  KVC_TRY(file.begin(table.file_bytes(), error));
  SaveWriter writer(file, &resource_);
  if (table.is_private) writer.headers.resize(uint64_t{seq.part->layout.layer_count()} * codec::frame_header_bytes);
  KVC_TRY(writer.add(bytes.data(), bytes.size(), error));
  for (uint64_t c = 0; c < table.chunks.size(); c++) KVC_TRY(save_chunk(writer, table, seq, c, error));
  KVC_TRY(writer.fill(table.trailer_at, error));
  KVC_TRY(writer.add(trailer.data(), trailer.size(), error));
  KVC_TRY(writer.flush(error));
  return file.commit(error);
}

}  // namespace kvc::store
