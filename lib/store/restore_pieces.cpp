#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "store/memory.h"
#include "store/page_sums.h"
#include "store/restoring.h"
#include "store/slices.h"

/// Window rows and snapshots out of a file.
namespace kvc::store {

namespace {

uint64_t key_of(const SaveTable &table, const SavedPiece &piece) { return piece.kind == Piece::window ? table.chunk_of(piece) : piece.at; }
seq::NodeFlags flag_of(Piece kind) { return kind == Piece::window ? seq::node_window : seq::node_state; }

}  // namespace

/// May the next chunk of the file be taken to be `ref`, which is held?  Pieces of it are only of use beside the chunk that they were signed with.
bool Store::Restoring::is_same_writer(Ref ref) const {
  if (!seq->pieces) return true;
  return std::memcmp(chunk_write_id(*seq->scope, store.index_->node(ref)), table.chunks[seq->sealed].write_id.data(), write_id_bytes) == 0;
}

void Store::Restoring::reserve_pieces() {
  const uint64_t seen = window_begin(table.length, seq->part->window_max) / seq->chunk_tokens();
  const uint64_t spare_count = seq->part->window_max && table.sealed() > seen ? table.sealed() - seen : 0;
  seq->pieces->windows.reserve(table.pieces.size() + spare_count);
  seq->pieces->states.reserve(table.pieces.size());
  plan.spares.reserve(spare_count);
  while (plan.spares.size() < spare_count) plan.spares.push_back(make<OpenChunk>(&store.resource_));
  const auto nodes = static_cast<uint32_t>(std::count_if(table.pieces.begin(), table.pieces.end(), [](const SavedPiece &piece) { return !piece.is_open; }));
  std::lock_guard lock(store.mutex_);
  store.index_->reserve(nodes, seq->scope->id);
  plan.nodes_reserved = nodes;
}

/// Has the piece that is held all that the file's has?  Slices of it may not have come.  Under the lock.
bool Store::Restoring::has_all(Ref held, const SavedPiece &piece) const {
  const auto layers = table.layers_of(piece.kind);
  const auto marks = table.marks_of(piece);
  bool all = true;
  for (size_t l = 0; l < layers.size(); l++) {
    const uint32_t there = store.left_out(*seq, {slot_data(store.index_->node(held)), held}, layers[l]);
    all = all && (piece.kind == Piece::state ? there == 0 : std::min(there, table.shape.chunk_tokens) <= marks[l]);
  }
  return all;
}

/// A chunk that is held already may have it too: those are the same bytes.
bool Store::Restoring::hold_piece(const SavedPiece &piece, OpenChunk **out) {
  const uint64_t chunk = table.chunk_of(piece);
  if (piece.is_open || chunk >= seq->sealed) return false;
  OpenChunk *rows = make<OpenChunk>(&store.resource_);
  {
    std::lock_guard lock(store.mutex_);
    const Ref held = store.index_->find_piece(seq->table->refs[chunk], flag_of(piece.kind));
    if (held && has_all(held, piece)) store.index_->pin(rows->held = held);
  }
  if (!rows->held) {
    destroy(&store.resource_, rows);
    return false;
  }
  *out = rows;
  return true;
}

kvc_status Store::Restoring::read_pieces(Error &error) {
  for (size_t i = 0; i < table.pieces.size(); i++) {
    const SavedPiece &piece = table.pieces[i];
    const ChunkLayout &layout = seq->part->layout_of(piece.kind);
    auto &list = piece.kind == Piece::window ? seq->pieces->windows : seq->pieces->states;
    OpenChunk *rows;
    if (hold_piece(piece, &rows)) {
      list.push_back({key_of(table, piece), rows});
      continue;
    }
    KVC_TRY(take_slot(&rows, layout, piece.is_open, error));
    list.push_back({key_of(table, piece), rows});
    KVC_TRY(read_part(*rows, layout, table.chunks.size() + i, error));
    const auto layers = table.layers_of(piece.kind);
    const auto marks = table.marks_of(piece);
    for (size_t l = 0; l < layers.size(); l++) {
      layout.mark(rows->data, layers[l]) = marks[l];
      if (piece.kind == Piece::window && marks[l]) page_sums(rows->data, layout, layers[l])->valid = 0;  // rows that were left out become zero first
    }
  }
  return KVC_OK;
}

/// After the chunks were sealed: their pieces join them.  Nothing here can fail.
void Store::settle_restored(Sequence &seq, const SaveTable &table, PiecePlan &plan) {
  for (const SavedPiece &piece : table.pieces) {
    OpenChunk *const rows = piece.is_open ? nullptr : Pieces::find(piece.kind == Piece::window ? seq.pieces->windows : seq.pieces->states, key_of(table, piece));
    const uint64_t chunk = table.chunk_of(piece);
    if (!rows || !rows->own() || chunk >= seq.sealed) continue;
    if (std::memcmp(chunk_write_id(*seq.scope, index_->node(seq.table->refs[chunk])), table.chunks[chunk].write_id.data(), write_id_bytes) != 0) continue;
    seq.is_private = !table.chunks[chunk].is_named();
    if (seal_piece(seq, *rows, piece.kind, chunk)) plan.nodes_reserved--;
  }
  std::erase_if(seq.pieces->pending, [&](uint64_t chunk) { return !table.chunks[chunk].awaits; });
  std::lock_guard lock(mutex_);
  drop_passed(seq);
  for (OpenChunk *spare : plan.spares) destroy(&resource_, spare);
  index_->unreserve(plan.nodes_reserved);
}

}  // namespace kvc::store
