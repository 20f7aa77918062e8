#include <algorithm>

#include "kernels/rows.h"
#include "store/piece_use.h"

/// Rows of window layers and snapshots going out.
namespace kvc::store {

using base::fail;

Store::PieceUse::~PieceUse() {
  if (!pinned) return;
  std::lock_guard lock(store.mutex_);
  store.index_->unpin(pinned, store.next_tick(), false);
}

/// The rows at `at` (a chunk; of snapshots a position): those of the sequence's own entry, or of a piece that nobody may hold, which is held meanwhile.
kvc_status Store::use_piece(PieceUse &use, const Sequence &seq, Piece piece, uint64_t at, Error &error) {
  const uint64_t chunk_tokens = seq.chunk_tokens();
  OpenChunk *const rows = Pieces::find(piece == Piece::window ? seq.pieces->windows : seq.pieces->states, at);
  if (rows && rows->own()) {
    use.open = rows;
    use.data = rows->data;
    return KVC_OK;
  }
  if (rows && !rows->gone && index_->held(rows->held)) {
    use.held = rows->held;
    use.data = slot_data(index_->node(rows->held));
    return KVC_OK;
  }
  const uint64_t chunk = piece == Piece::window ? at : at / chunk_tokens - 1;
  bool failed = false;
  if (chunk < seq.held && (piece == Piece::window || at % chunk_tokens == 0)) {
    std::lock_guard lock(mutex_);
    if (const Ref found = index_->find_piece(seq.table->refs[chunk], piece == Piece::window ? seq::node_window : seq::node_state)) {
      index_->pin(found);
      use.held = use.pinned = found;
      use.data = slot_data(index_->node(found));
      return KVC_OK;
    }
    failed = index_->node(seq.table->refs[chunk]).flags & seq::node_bad_state;
  }
  if (rows && seq.pieces->left != UINT64_MAX) return fail_lapsed(seq, piece == Piece::window ? at * chunk_tokens : at, error);
  if (piece == Piece::window) return fail(error, KVC_ERR_GONE, "window rows of the chunk at token %llu are no longer held", static_cast<unsigned long long>(at * chunk_tokens));
  if (failed) return fail(error, KVC_ERR_GONE, "the snapshot at token %llu failed its check and was dropped", static_cast<unsigned long long>(at));
  return fail(error, KVC_ERR_NO_SNAPSHOT, "no snapshot at token %llu: there is one where the latest append ended, and at chunk ends where an append ended", static_cast<unsigned long long>(at));
}

/// `token`, `count` lie in one chunk.  A snapshot is that at the end of the run, and served with its last token.
kvc_status Store::gather_beside(const Sequence &seq, const Run &run, uint64_t token, uint64_t row, uint64_t count, bool stream, Error &error) {
  const bool state = run.layers->kind == KVC_LAYER_STATE;
  if (state && token + count != run.token_end()) return KVC_OK;
  const Piece piece = state ? Piece::state : Piece::window;
  const uint64_t chunk_tokens = seq.chunk_tokens();
  const ChunkLayout &layout = seq.part->layout_of(piece);
  PieceUse use(*this);
  KVC_TRY(use_piece(use, seq, piece, state ? run.token_end() : token / chunk_tokens, error));
  const auto first = static_cast<uint32_t>(state ? 0 : token % chunk_tokens);
  const kernels::Move move{first, static_cast<uint32_t>(state ? 1 : count), run.head_begin, run.head_count, stream};
  const bool sliced = use.held && is_sliced(seq, use.held);
  for (uint32_t l = 0; l < run.layer_count; l++) {
    const uint32_t layer = run.layer_begin + l, missing = left_out(seq, use.rows(), layer, run.head_begin, run.head_count);
    if (state && missing) return fail(error, KVC_ERR_NO_SNAPSHOT, "layer %u: no snapshot at token %llu", run.named(layer), static_cast<unsigned long long>(run.token_end()));
    if (!state && missing > first)
      return fail(error, KVC_ERR_GONE, "layer %u: rows below token %llu were left out or are no longer held", run.named(layer),
                  static_cast<unsigned long long>(token - first + std::min<uint64_t>(missing, chunk_tokens)));
    if (sliced) continue;
    if (verify_reads_ && use.held && verify_page(*seq.part, use.held, use.data, layer, error) != KVC_OK)
      return fail(error, KVC_ERR_GONE, "layer %u: the page at token %llu failed its check and was dropped", run.named(layer), static_cast<unsigned long long>(token - first));
    for (const SideKind kind : {SideKind::k, SideKind::v})
      if (run.side(kind).present) kernels::table().rows_out(run.side(kind).from(l, state ? 0 : row), layout.side(use.data, layer, kind), move);
  }
  return sliced ? gather_slices(seq, run, use.held, move, state ? 0 : row, error) : KVC_OK;
}

}  // namespace kvc::store
