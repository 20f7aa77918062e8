#include "store/save_pieces.h"

#include <algorithm>

#include "store/slices.h"

/// Window rows and snapshots on their way into a file: the sequence's own, and those of its chunks, at which it may end.
namespace kvc::store {

using base::fail;

Store::PiecesOut::~PiecesOut() {
  if (pinned.empty()) return;
  std::lock_guard lock(store.mutex_);
  for (const Ref piece : pinned) store.index_->unpin(piece, store.next_tick(), false);
}

/// All of one kind, behind those that are listed already.
void Store::list_pieces(PiecesOut &out, const Sequence &seq, Piece kind) {
  constexpr uint64_t batch = 64;
  const bool window = kind == Piece::window;
  const uint64_t chunk_tokens = seq.chunk_tokens();
  const auto &own = window ? seq.pieces->windows : seq.pieces->states;
  const size_t before = out.sources.size();
  for (uint64_t begin = 0; begin < seq.held; begin += batch) {
    const uint64_t end = std::min(begin + batch, seq.held);
    out.sources.reserve(out.sources.size() + batch);
    out.pinned.reserve(out.pinned.size() + batch);
    std::lock_guard lock(mutex_);
    for (uint64_t c = begin; c < end; c++) {
      if (Pieces::find(own, window ? c : (c + 1) * chunk_tokens)) continue;
      const Ref piece = index_->find_piece(seq.table->refs[c], window ? seq::node_window : seq::node_state);
      if (!piece) continue;
      index_->pin(piece);
      out.pinned.push_back(piece);
      out.sources.push_back({window ? c * chunk_tokens : (c + 1) * chunk_tokens, slot_data(index_->node(piece)), piece});
    }
  }
  for (const Pieces::Entry &entry : own) {
    const bool is_own = entry.rows->own();
    if (!is_own && (entry.rows->gone || !index_->held(entry.rows->held))) continue;
    out.sources.push_back({window ? entry.at * chunk_tokens : entry.at, is_own ? entry.rows->data : slot_data(index_->node(entry.rows->held)), is_own ? Ref{} : entry.rows->held});
  }
  std::sort(out.sources.begin() + static_cast<int64_t>(before), out.sources.end(), [](const PiecesOut::Source &a, const PiecesOut::Source &b) { return a.at < b.at; });
}

/// Who wrote a piece that is held; false when its first header cannot be read.
bool Store::PiecesOut::write_id_of(std::array<uint8_t, 16> &out, const Source &source, const Sequence &seq, Piece kind) const {
  if (seq::flags_of(store.index_->node(source.held)) & seq::node_sliced) {
    std::copy_n(Slice::in(source.data)->write_id, out.size(), out.begin());
    return true;
  }
  const ChunkLayout &layout = seq.scope->layout_of(kind);
  uint32_t layer = 0;
  while (!layout.page(layer).present()) layer++;
  codec::FrameHeader header;
  Error ignored;
  if (codec::frame_decode(header, source.data + layout.header_offset(layer), codec::frame_header_bytes + layout.page(layer).padded_bytes(), ignored) != KVC_OK) return false;
  out = header.write_id;
  return true;
}

void Store::PiecesOut::describe(SaveTable &table, const Source &source, const Sequence &seq, Piece kind) const {
  SavedPiece piece;
  piece.kind = kind, piece.at = source.at, piece.first_mark = table.marks.size();
  const uint64_t chunk = table.chunk_of(piece), chunk_tokens = seq.chunk_tokens();
  const auto layers = table.layers_of(kind);
  const PieceRows rows{source.data, source.held};
  std::array<uint8_t, 16> write_id;
  piece.is_open = !source.held || chunk >= seq.sealed || !write_id_of(write_id, source, seq, kind) || write_id != table.chunks[chunk].write_id ||
                  (kind == Piece::state && !store.snapshot_whole(seq, rows));
  for (const uint32_t layer : layers) {
    const uint32_t left_out = store.left_out(seq, rows, layer), mark = std::min(left_out, table.shape.chunk_tokens);
    if (kind == Piece::window) table.marks.push_back(piece.is_open && mark >= table.rows_in(layer, chunk) ? static_cast<uint32_t>(chunk_tokens) : mark);
    else table.marks.push_back(left_out == 0 && (!piece.is_open || seq.filled[layer] >= source.at));
  }
  table.pieces.push_back(piece);
}

kvc_status Store::describe_pieces(SaveTable &table, PiecesOut &out, const Sequence &seq, Error &error) {
  list_pieces(out, seq, Piece::window);
  const size_t windows = out.sources.size();
  list_pieces(out, seq, Piece::state);
  size_t kept = 0;
  for (size_t i = 0; i < out.sources.size(); i++) {
    out.describe(table, out.sources[i], seq, i < windows ? Piece::window : Piece::state);
    const SavedPiece &piece = table.pieces.back();
    const auto marks = table.marks_of(piece);
    const uint32_t nothing = piece.kind == Piece::window ? table.shape.chunk_tokens : 0;
    if (std::any_of(marks.begin(), marks.end(), [&](uint32_t mark) { return mark != nothing; })) {
      out.sources[kept++] = out.sources[i];
      continue;
    }
    table.marks.resize(piece.first_mark);
    table.pieces.pop_back();
  }
  out.sources.resize(kept);
  return check_goes_on(table, KVC_ERR_GONE, error);
}

kvc_status Store::save_piece(SaveWriter &writer, const SaveTable &table, const Sequence &seq, size_t piece, const PiecesOut &out, Error &error) {
  const PiecesOut::Source &source = out.sources[piece];
  KVC_TRY(writer.fill(table.pieces[piece].offset, error));
  const kvc_status status = table.each_page(table.chunks.size() + piece, [&](const SavedPage &page) { return save_page(writer, table, page, seq, source.data, source.held, error); });
  if (status != KVC_OK) return status;
  return writer.flush(error);
}

}  // namespace kvc::store
