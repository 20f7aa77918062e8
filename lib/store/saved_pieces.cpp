#include <algorithm>

#include "store/save_file.h"
#include "store/scope.h"

/// Window rows and snapshots in a save file: which there are, and which there must be.
namespace kvc::store {

using base::Error;
using base::fail;

namespace {

unsigned long long wide(uint64_t value) { return value; }

bool comes_before(const SavedPiece &a, const SavedPiece &b) { return a.kind != b.kind ? a.kind == Piece::window : a.at < b.at; }

kvc_status check_marks(const SaveTable &table, const SavedPiece &piece, Error &error) {
  const auto layers = table.layers_of(piece.kind);
  const auto marks = table.marks_of(piece);
  const uint32_t chunk_tokens = table.shape.chunk_tokens;
  const bool window = piece.kind == Piece::window;
  for (size_t i = 0; i < layers.size(); i++) {
    const bool there = window ? marks[i] < chunk_tokens : marks[i] != 0;
    const uint64_t needed = piece.is_open ? piece.at + (window ? marks[i] + 1 : 0) : 0;
    if (marks[i] > (window ? chunk_tokens : 1) || (there && table.filled[layers[i]] < needed) || (!window && !piece.is_open && !there))
      return fail(error, KVC_ERR_CORRUPT, "layer %u: the mark %u of its %s at token %llu: %llu rows are filled", table.number_of(layers[i]), marks[i], window ? "window rows" : "snapshot", wide(piece.at),
                  wide(table.filled[layers[i]]));
  }
  return KVC_OK;
}

}  // namespace

void SaveTable::list_layers() {
  for (const seq::LayerRun &run : shape.runs)
    for (uint32_t l = run.layer_begin; !run.keeps_all() && l < run.layer_begin + run.layer_count; l++) (run.kind == KVC_LAYER_WINDOW ? window_layers : state_layers).push_back(l);
}

const SavedPiece *SaveTable::find(Piece kind, uint64_t at) const {
  SavedPiece key;
  key.kind = kind, key.at = at;
  const auto found = std::lower_bound(pieces.begin(), pieces.end(), key, comes_before);
  return found != pieces.end() && found->kind == kind && found->at == at ? &*found : nullptr;
}

SavedPage SaveTable::page(const SavedPiece &piece, uint32_t ordinal) const {
  SavedPage page;
  page.layer = layers_of(piece.kind)[ordinal];
  page.layers = &shape.run_of(page.layer);
  page.chunk = chunk_of(piece);
  page.is_open = piece.is_open;
  const uint32_t mark = marks[piece.first_mark + ordinal];
  if (piece.kind == Piece::window) {
    page.first = piece.is_open ? mark : 0;
    page.rows = mark == shape.chunk_tokens ? 0 : piece.is_open ? rows_in(page.layer, page.chunk) - mark : shape.chunk_tokens;
    page.tokens = page.rows;
    page.left_out = piece.is_open || page.rows == 0 ? 0 : mark;
  } else {
    page.rows = mark;
    page.tokens = static_cast<uint32_t>(piece.at - page.chunk * shape.chunk_tokens);
  }
  if (!piece.is_open) page.named_by = &chunks[page.chunk];
  page.is_private = piece.is_open || !page.named_by->is_named() || (piece.kind == Piece::window && mark);
  page.k_bytes = uint64_t{page.layers->kv_heads} * page.rows * page.layers->k_row_bytes();
  page.v_bytes = uint64_t{page.layers->kv_heads} * page.rows * page.layers->v_row_bytes();
  return page;
}

kvc_status check_pieces(const SaveTable &table, Error &error) {
  const uint64_t chunk_tokens = table.shape.chunk_tokens;
  for (size_t i = 0; i < table.pieces.size(); i++) {
    const SavedPiece &piece = table.pieces[i];
    const bool window = piece.kind == Piece::window, at_end = piece.at % chunk_tokens == 0;
    if (i && !comes_before(table.pieces[i - 1], piece)) return fail(error, KVC_ERR_CORRUPT, "piece %zu comes before the one in front of it", i);
    if (piece.at > table.rows_max() || (window ? !at_end : piece.at == 0) || (!piece.is_open && (!at_end || table.chunk_of(piece) >= table.sealed())))
      return fail(error, KVC_ERR_CORRUPT, "piece %zu: %s at token %llu: there can be none", i, window ? "window rows" : "a snapshot", wide(piece.at));
    KVC_TRY(check_marks(table, piece, error));
  }
  return KVC_OK;
}

kvc_status check_goes_on(const SaveTable &table, kvc_status status, Error &error) {
  const uint64_t chunk_tokens = table.shape.chunk_tokens;
  for (size_t i = 0; i < table.window_layers.size(); i++) {
    const uint32_t layer = table.window_layers[i];
    const uint64_t end = table.filled[layer], seen = window_begin(table.length, table.shape.run_of(layer).window);
    for (uint64_t c = seen / chunk_tokens; seen < end && c * chunk_tokens < end; c++) {
      const SavedPiece *const piece = table.find(Piece::window, c * chunk_tokens);
      if (!piece || table.marks_of(*piece)[i] > (seen > c * chunk_tokens ? seen - c * chunk_tokens : 0))
        return fail(error, status, "layer %u: rows of the chunk at token %llu, which its window sees, are not there", table.number_of(layer), wide(c * chunk_tokens));
    }
  }
  for (size_t i = 0; i < table.state_layers.size(); i++) {
    const uint64_t stands = table.filled[table.state_layers[i]];
    const SavedPiece *const piece = stands ? table.find(Piece::state, stands) : nullptr;
    if (stands && (!piece || !table.marks_of(*piece)[i])) return fail(error, status, "layer %u: the snapshot at token %llu is not there", table.number_of(table.state_layers[i]), wide(stands));
  }
  return KVC_OK;
}

}  // namespace kvc::store
