#include "store/cut.h"

#include <algorithm>

#include "store/memory.h"
#include "store/slices.h"

/// Where a sequence with window or state layers can end: at a position whose window rows are held, and a snapshot of every state layer.
namespace kvc::store {

using base::fail;

namespace {

constexpr uint64_t none = UINT64_MAX;

void put(std::pmr::vector<Pieces::Entry> &list, uint64_t at, OpenChunk *rows) {
  list.insert(std::lower_bound(list.begin(), list.end(), at, [](const Pieces::Entry &e, uint64_t key) { return e.at < key; }), {at, rows});
}

}  // namespace

Store::Cut::~Cut() {
  if (made.empty()) return;
  std::lock_guard lock(store.mutex_);
  for (OpenChunk *rows : made) store.open_chunk_unref(rows);
}

/// Under the lock.
OpenChunk *Store::Cut::hold(Ref piece) {
  made.reserve(made.size() + 1);
  OpenChunk *rows = make<OpenChunk>(&store.resource_);
  rows->held = piece;
  store.index_->pin(piece);
  made.push_back(rows);
  return rows;
}

/// Are the rows of this chunk there that queries at `end` see?  `filled`: rows that there are; empty: all.
bool Store::covers(const Sequence &seq, PieceRows rows, uint64_t chunk, uint64_t end, std::span<const uint64_t> filled) const {
  const ChunkLayout &layout = seq.part->windows;
  const uint64_t chunk_tokens = layout.chunk_tokens(), begin = chunk * chunk_tokens;
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    if (!layout.page(l).present()) continue;
    const uint64_t seen = std::max(window_begin(end, layout.page(l).layers->window), begin);
    const uint64_t rows_end = std::min({end, begin + chunk_tokens, filled.empty() ? end : filled[l]});
    if (seen < rows_end && left_out(seq, rows, l) > seen - begin) return false;
  }
  return true;
}

/// May the sequence still bring window rows of this chunk?  Not of one that is another writer's.
bool Store::may_bring(const Sequence &seq, uint64_t chunk) { return chunk >= seq.sealed || seq.pieces->is_pending(chunk); }

/// The window rows of a chunk, in the sequence's own entry or in a piece of the chunk.  Under the lock.
PieceRows Store::window_rows(const Sequence &seq, std::span<const Ref> refs, uint64_t chunk, Ref *piece) const {
  if (const PieceRows own = rows_of(Pieces::find(seq.pieces->windows, chunk)); own.slot) return own;
  *piece = chunk < refs.size() ? index_->find_piece(refs[chunk], seq::node_window) : Ref{};
  return rows_of(*piece);
}

/// The last chunk that lacks rows which queries at `end` see; UINT64_MAX: none does.  `as_match`: for who has chunks alone.  Under the lock.
uint64_t Store::window_missing(const Sequence &seq, std::span<const Ref> refs, uint64_t end, bool as_match) const {
  const uint64_t chunk_tokens = seq.chunk_tokens(), window_max = seq.part->window_max, seen = window_begin(end, window_max);
  if (!window_max || seen >= end) return none;
  for (uint64_t c = (end - 1) / chunk_tokens;; c--) {
    Ref piece;
    const bool covered = as_match ? covers(seq, rows_of(index_->find_piece(refs[c], seq::node_window)), c, end, {}) : covers(seq, window_rows(seq, refs, c, &piece), c, end, may_bring(seq, c) ? std::span<const uint64_t>(seq.filled) : std::span<const uint64_t>());
    if (!covered) return c;
    if (c == seen / chunk_tokens) return none;
  }
}

/// How many of these chunks a match can take: the last of them has what its kinds of layers need.  `stop`: why not all.  Under the lock.
uint64_t Store::pieces_end(const Sequence &seq, std::span<const Ref> refs, uint32_t *stop) const {
  uint64_t end = refs.size();
  const auto note = [&](uint32_t why) {
    if (stop && end == refs.size()) *stop = why;
  };
  while (end) {
    if (seq.part->has_states && !snapshot_whole(seq, rows_of(index_->find_piece(refs[end - 1], seq::node_state)))) {
      note(KVC_STOP_STATE);
      end--;
      continue;
    }
    const uint64_t missing = window_missing(seq, refs, end * seq.chunk_tokens(), true);
    if (missing == none) break;
    note(KVC_STOP_WINDOW);
    end = missing;  // whatever ends behind it sees into it
  }
  return end;
}

/// Is there a snapshot of every state layer that has come to `tokens`, in the sequence's own entry or in `piece`?  Under the lock.
bool Store::states_at(const Sequence &seq, uint64_t tokens, Ref *piece) const {
  const ChunkLayout &layout = seq.part->states;
  if (tokens == 0) return true;
  const PieceRows rows = rows_of(Pieces::find(seq.pieces->states, tokens));
  bool own = true;
  for (uint32_t l = 0; l < layout.layer_count(); l++) own = own && (!layout.page(l).present() || seq.filled[l] < tokens || !left_out(seq, rows, l));
  if (own) return true;
  const uint64_t chunk_tokens = seq.chunk_tokens(), chunk = tokens / chunk_tokens - 1;
  if (tokens % chunk_tokens || chunk >= seq.held) return false;
  const Ref held = index_->find_piece(seq.table->refs[chunk], seq::node_state);
  if (!snapshot_whole(seq, rows_of(held))) return false;
  *piece = held;
  return true;
}

kvc_status Store::plan_cut(Cut &cut, const Sequence &seq, uint64_t tokens, Error &error) {
  const Part &part = *seq.part;
  const uint64_t chunk_tokens = seq.chunk_tokens(), seen = window_begin(tokens, part.window_max);
  const std::span<const Ref> refs = seq.held ? std::span<const Ref>(seq.table->refs).first(seq.held) : std::span<const Ref>();
  std::lock_guard lock(mutex_);
  Ref state;
  if (!states_at(seq, tokens, &state))
    return fail(error, KVC_ERR_NO_SNAPSHOT, "tokens %llu: a state layer has no snapshot there; kvc_seq_info.tokens_end says where all have", static_cast<unsigned long long>(tokens));
  if (const uint64_t missing = window_missing(seq, refs, tokens, false); missing != none)
    return fail(error, KVC_ERR_GONE, "tokens %llu: a window layer sees rows from token %llu on, those of the chunk at token %llu are no longer held; kvc_seq_info.tokens_end says where all are",
                static_cast<unsigned long long>(tokens), static_cast<unsigned long long>(seen), static_cast<unsigned long long>(missing * chunk_tokens));
  for (const Pieces::Entry &e : seq.pieces->windows)
    if (e.at * chunk_tokens < tokens && rows_of(e.rows).slot) put(cut.windows, e.at, e.rows);
  for (uint64_t c = seen / chunk_tokens; part.window_max && c * chunk_tokens < tokens; c++) {
    Ref piece;
    if (!Pieces::find(cut.windows, c) && window_rows(seq, refs, c, &piece).slot && piece) put(cut.windows, c, cut.hold(piece));
  }
  for (const Pieces::Entry &e : seq.pieces->states)
    if (e.at < tokens || (e.at == tokens && !state)) put(cut.states, e.at, e.rows);
  if (state) put(cut.states, tokens, cut.hold(state));
  return KVC_OK;
}

/// The sequence ends there: filled, length and sealed say so already.  Under the lock.
void Store::apply_cut(Cut &cut, Sequence &seq) {
  Pieces &pieces = *seq.pieces;
  pieces.windows.swap(cut.windows);
  pieces.states.swap(cut.states);
  cut.made.clear();
  for (const Pieces::Entry &before : cut.windows)
    if (Pieces::find(pieces.windows, before.at) != before.rows) open_chunk_unref(before.rows);
  for (const Pieces::Entry &before : cut.states)
    if (Pieces::find(pieces.states, before.at) != before.rows) open_chunk_unref(before.rows);
  std::erase_if(pieces.pending, [&](uint64_t chunk) { return (chunk + 1) * seq.chunk_tokens() > cut.tokens; });
  pieces.left = none;
  drop_passed(seq);
}

/// A match has found main pieces, the last of which is pinned: how far it goes, and the pieces it needs there.
void Store::match_pieces(Sequence &seq, uint32_t *stop) {
  for (;;) {  // again when one of them went while we looked
    {
      std::lock_guard lock(mutex_);
      seq.sealed = seq.held = pieces_end(seq, std::span<const Ref>(seq.table->refs).first(seq.held), stop);
      pin_tip(seq);
    }
    seq.length = seq.given = seq.sealed_tokens();
    std::fill(seq.filled.begin(), seq.filled.end(), seq.length);
    Cut cut(*this, seq.length);
    Error ignored;
    if (plan_cut(cut, seq, seq.length, ignored) != KVC_OK) continue;
    std::lock_guard lock(mutex_);
    apply_cut(cut, seq);
    return;
  }
}

/// kvc_seq_info.tokens_end.  Under the lock.
uint64_t Store::truncate_end(const Sequence &seq) const {
  uint64_t end = seq.length ? seq.length - 1 : 0;
  if (!seq.pieces) return end;
  const uint64_t chunk_tokens = seq.chunk_tokens();
  const std::span<const Ref> refs = seq.held ? std::span<const Ref>(seq.table->refs).first(seq.held) : std::span<const Ref>();
  while (end) {
    Ref piece;
    if (!states_at(seq, end, &piece)) {
      uint64_t next = (end - 1) / chunk_tokens * chunk_tokens;
      for (const Pieces::Entry &e : seq.pieces->states)
        if (e.at < end) next = std::max(next, e.at);
      end = next;
      continue;
    }
    const uint64_t missing = window_missing(seq, refs, end, false);
    if (missing == none) break;
    end = missing * chunk_tokens;
  }
  return end;
}

/// What a sequence can go on from when something of it was evicted: a position where a match could end.  Under the lock.
uint64_t Store::left_of_pieces(const Sequence &seq, uint64_t held) const {
  return held ? pieces_end(seq, std::span<const Ref>(seq.table->refs).first(held), nullptr) * seq.chunk_tokens() : 0;
}

}  // namespace kvc::store
