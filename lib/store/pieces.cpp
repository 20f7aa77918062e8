#include <algorithm>
#include <cstring>

#include "store/append_plan.h"
#include "store/memory.h"
#include "store/page_sums.h"
#include "store/slices.h"

/// Rows of window layers and snapshots of state layers coming in, and the pieces they become.  As for main pieces, all that can fail is done first.
namespace kvc::store {

using base::fail;

namespace {

/// The entry at `at`, or where it belongs.
auto place(std::pmr::vector<Pieces::Entry> &list, uint64_t at) {
  return std::lower_bound(list.begin(), list.end(), at, [](const Pieces::Entry &e, uint64_t key) { return e.at < key; });
}

uint64_t least_filled(const Sequence &seq, uint32_t kind) {
  uint64_t least = UINT64_MAX;
  for (const seq::LayerRun &run : seq.part->shape.runs)
    if (run.kind == kind) least = std::min(least, *std::min_element(seq.filled.begin() + run.layer_begin, seq.filled.begin() + run.layer_begin + run.layer_count));
  return least;
}

}  // namespace

void Store::AppendPlan::note_skip(const Run &run, uint32_t layer) {
  const uint64_t seen = run.token_begin + run.layers->window;
  if (seen <= skip_seen) return;
  skip_seen = seen;
  skip_to = run.token_begin;
  skip_layer = run.named(layer);
  skip_window = run.layers->window;
}

/// A query at the position behind the last token sees `window` tokens, its own included.
kvc_status Store::AppendPlan::check_skip(Error &error) const {
  if (skip_seen <= length + 1) return KVC_OK;
  return fail(error, KVC_ERR_RANGE, "layer %u: rows start at token %llu, a gap: with %llu tokens complete a window of %u may leave out rows below %llu", skip_layer,
              static_cast<unsigned long long>(skip_to), static_cast<unsigned long long>(length), skip_window,
              static_cast<unsigned long long>(length + 1 > skip_window ? length + 1 - skip_window : 0));
}

/// Rows go to the entry at `at`, which then is the sequence's own.  `held_stay`: not if it is that of a held piece, which has them.
void Store::PiecePlan::add(Piece piece, uint64_t at, bool held_stay) {
  auto &list = piece == Piece::window ? windows : states;
  const auto found = place(list, at);
  if (found == list.end() || found->at != at) {
    list.insert(found, {at, nullptr});
    needs.push_back({piece, at, nullptr});
    return;
  }
  OpenChunk *const rows = found->rows;
  if (!rows || (rows->own() && rows->users.load(std::memory_order_acquire) == 1) || (held_stay && !rows->own())) return;
  needs.push_back({piece, at, rows});
  found->rows = nullptr;
}

/// What is sealed after the call, or gives way to what somebody else sealed, may not be a fork's too, nor be taken from the chunk that a truncate
/// cut: other rows follow on it now.
void Store::PiecePlan::own_what_seals(const Sequence &seq, uint64_t sealed) {
  for (const Pieces::Entry &entry : std::pmr::vector<Pieces::Entry>(windows))
    if (entry.rows && entry.at < sealed && (entry.rows->own() || entry.at >= seq.sealed)) add(Piece::window, entry.at, false);
  for (const Pieces::Entry &entry : std::pmr::vector<Pieces::Entry>(states))
    if (entry.rows && entry.rows->own() && entry.at <= sealed * seq.chunk_tokens() && entry.at % seq.chunk_tokens() == 0) add(Piece::state, entry.at, true);
}

void Store::PiecePlan::count(const Sequence &seq, uint64_t sealed, uint64_t length) {
  const Part &part = *seq.part;
  const uint64_t chunk_tokens = seq.chunk_tokens();
  for (const Pieces::Entry &entry : windows) {
    if (entry.rows && !entry.rows->own()) continue;
    if (entry.at < sealed) nodes++;
    else open_bytes += memory::Slab::rounded_bytes(part.windows.slot_bytes());
  }
  for (const Pieces::Entry &entry : states) {
    if (entry.rows && !entry.rows->own()) continue;
    if (entry.at % chunk_tokens == 0 && entry.at <= sealed * chunk_tokens) nodes++;
    else open_bytes += memory::Slab::rounded_bytes(part.states.slot_bytes());
  }
  const uint64_t seen = window_begin(length, part.window_max);
  for (uint64_t c = std::max(seq.sealed, seen / chunk_tokens); part.window_max && c < sealed; c++) spare_count += !Pieces::find(windows, c);
}

void Store::plan_pieces(AppendPlan &plan, const Sequence &seq) {
  PiecePlan &p = plan.pieces.emplace(plan.runs.get_allocator().resource());
  p.windows.assign(seq.pieces->windows.begin(), seq.pieces->windows.end());
  p.states.assign(seq.pieces->states.begin(), seq.pieces->states.end());
  const uint64_t chunk_tokens = seq.chunk_tokens();
  for (const Run &run : plan.runs) {
    // Of a sealed chunk that has the rows already, the held bytes stay.  Its piece may be of other parts alone, or begin later.
    const auto has_run = [&](const std::pmr::vector<Pieces::Entry> &list, uint64_t at, uint64_t first_row) {
      const PieceRows rows = rows_of(Pieces::find(list, at));
      bool all = true;
      for (uint32_t l = run.layer_begin; l < run.layer_begin + run.layer_count; l++) all = all && left_out(seq, rows, l) <= first_row;
      return all;
    };
    if (run.layers->kind == KVC_LAYER_STATE) p.add(Piece::state, run.token_end(), has_run(seq.pieces->states, run.token_end(), 0));
    if (run.layers->kind != KVC_LAYER_WINDOW) continue;
    for (uint64_t c = run.token_begin / chunk_tokens; c * chunk_tokens < run.token_end(); c++)
      if (may_bring(seq, c)) p.add(Piece::window, c, c < seq.sealed && has_run(seq.pieces->windows, c, std::max(run.token_begin, c * chunk_tokens) - c * chunk_tokens));
  }
  p.own_what_seals(seq, plan.sealed);
  p.count(seq, plan.sealed, plan.length);
}

kvc_status Store::make_piece(PiecePlan &plan, const PieceNeed &need, const Sequence &seq, Error &error) {
  const ChunkLayout &layout = seq.part->layout_of(need.piece);
  if (need.from && need.from->gone) return fail(error, KVC_ERR_GONE, "rows that the call goes on from were evicted after the lease lapsed");
  if (need.from && need.from->held) KVC_TRY(check_chunk(seq, need.from->held, need.piece == Piece::window ? need.at * seq.chunk_tokens() : need.at, error));
  OpenChunk *own;
  KVC_TRY(open_slot(&own, seq, layout, error));
  plan.made.push_back(own);
  if (need.from) {
    copy_piece_rows(own->data, seq, layout, need.from->own() ? PieceRows{need.from->data, {}} : PieceRows{slot_data(index_->node(need.from->held)), need.from->held});
    plan.replaced.push_back(need.from);
  }
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    if (!layout.page(l).present()) continue;
    if (!need.from) layout.mark(own->data, l) = need.piece == Piece::window ? layout.chunk_tokens() : 0;
    if (!need.from || need.from->held) page_sums(own->data, layout, l)->valid = 0;
  }
  place(need.piece == Piece::window ? plan.windows : plan.states, need.at)->rows = own;
  return KVC_OK;
}

kvc_status Store::reserve_pieces(AppendPlan &plan, Sequence &seq, Error &error) {
  PiecePlan &p = *plan.pieces;
  seq.pieces->windows.reserve(p.windows.size() + p.spare_count);
  seq.pieces->states.reserve(p.states.size());
  seq.pieces->pending.reserve(seq.pieces->pending.size() + (plan.sealed - seq.sealed));
  p.spares.reserve(p.spare_count);
  p.made.reserve(p.needs.size());
  p.replaced.reserve(p.needs.size());
  for (const PieceNeed &need : p.needs) KVC_TRY(make_piece(p, need, seq, error));
  while (p.spares.size() < p.spare_count) p.spares.push_back(make<OpenChunk>(&resource_));
  std::lock_guard lock(mutex_);
  index_->reserve(p.nodes, seq.scope->id);
  p.nodes_reserved = p.nodes;
  return KVC_OK;
}

void Store::PiecePlan::take_over(Store &store, Pieces &pieces) {
  pieces.windows.assign(windows.begin(), windows.end());
  pieces.states.assign(states.begin(), states.end());
  if (replaced.empty()) return;
  std::lock_guard lock(store.mutex_);
  for (OpenChunk *rows : replaced) store.open_chunk_unref(rows);
}

/// Under the lock.
void Store::PiecePlan::undo(Store &store) const {
  for (OpenChunk *rows : made) store.open_chunk_unref(rows);
  for (OpenChunk *spare : spares) destroy(&store.resource_, spare);
  store.index_->unreserve(nodes_reserved);
}

void Store::copy_window(Sequence &seq, const Run &run, uint32_t layer, bool stream) {
  const ChunkLayout &layout = seq.part->windows;
  const kernels::Table &kernel = kernels::table();
  const uint64_t chunk_tokens = seq.chunk_tokens(), before = seq.filled[layer];
  const bool skips = run.token_begin > before, all_heads = run.head_count == run.layers->kv_heads;
  if (skips)  // no row of that chunk is of use any more: the next ones do not follow on them
    if (OpenChunk *rows = Pieces::find(seq.pieces->windows, before / chunk_tokens); rows && rows->own()) {
      layout.mark(rows->data, layer) = layout.chunk_tokens();
      page_sums(rows->data, layout, layer)->valid = 0;  // a truncate may have cut a page that was whole
    }
  for (uint64_t token = run.token_begin; token < run.token_end();) {
    const uint64_t count = std::min(chunk_tokens - token % chunk_tokens, run.token_end() - token);
    OpenChunk *const rows = Pieces::find(seq.pieces->windows, token / chunk_tokens);
    if (rows && rows->own()) {
      uint32_t &mark = layout.mark(rows->data, layer);
      PageSums &sums = *page_sums(rows->data, layout, layer);
      if (token - token % chunk_tokens + mark >= before) mark = static_cast<uint32_t>(token % chunk_tokens);  // nothing, or what others brought further on
      sums.valid = count == chunk_tokens && all_heads;
      for (const SideKind kind : {SideKind::k, SideKind::v}) {
        if (!run.side(kind).present) continue;
        const kernels::RowsSide from = run.side(kind).from(layer - run.layer_begin, token - run.token_begin);
        const kernels::PageSide page = layout.side(rows->data, layer, kind);
        if (sums.valid) (kind == SideKind::k ? sums.k : sums.v) = kernel.rows_in_sum(page, from, run.head_count, stream);
        else kernel.rows_in(page, from, {static_cast<uint32_t>(token % chunk_tokens), static_cast<uint32_t>(count), run.head_begin, run.head_count, stream});
      }
    }
    token += count;
  }
}

void Store::copy_pieces(Sequence &seq, const Run &run) {
  const kernels::Table &kernel = kernels::table();
  const uint64_t row_bytes = static_cast<uint64_t>(run.head_count) * (run.k.dim * kernels::dtype_bytes(run.k.rows.dtype) + run.v.dim * kernels::dtype_bytes(run.v.rows.dtype));
  const bool stream = run.row_count * run.layer_count * row_bytes >= kernels::stream_in_bytes_min;
  metrics_.append_bytes.fetch_add(run.row_count * run.layer_count * row_bytes, std::memory_order_relaxed);
  for (uint32_t layer = run.layer_begin; layer < run.layer_begin + run.layer_count; layer++) {
    if (run.layers->kind == KVC_LAYER_WINDOW) {
      copy_window(seq, run, layer, stream);
    } else if (OpenChunk *rows = Pieces::find(seq.pieces->states, run.token_end()); rows && rows->own()) {
      const ChunkLayout &layout = seq.part->states;
      for (const SideKind kind : {SideKind::k, SideKind::v})
        if (run.side(kind).present) kernel.rows_in(layout.side(rows->data, layer, kind), run.side(kind).from(layer - run.layer_begin, 0), {0, 1, run.head_begin, run.head_count, stream});
      layout.mark(rows->data, layer) = 1;
      page_sums(rows->data, layout, layer)->valid = 0;
    }
    if (run.head_begin + run.head_count == run.layers->kv_heads) seq.filled[layer] = run.token_end();  // a later run of the call may go on there
  }
}

/// May the snapshot of a complete chunk still come, while another writer's of that name has none?  Which of the two is the chunk is open until then,
/// or until the next one is complete.  The sequence has come to `chunk`, its last.
bool Store::waits_for_snapshot(const Sequence &seq, uint64_t chunk) {
  if (!seq.part->has_states || seq.is_private || least_filled(seq, KVC_LAYER_STATE) >= (chunk + 1) * seq.chunk_tokens()) return false;
  const OpenChunk &open = *seq.open[chunk - seq.sealed];
  if (open_bytes_.load(std::memory_order_relaxed) > open_bytes_max_ || (open.held && open.held == open.cut_from)) return false;
  std::lock_guard lock(mutex_);
  const Ref found = index_->find_child(seq.names[chunk - seq.sealed], seq.tip());
  if (!found || is_of_writer(seq, open, found)) return false;
  return !snapshot_whole(seq, rows_of(index_->find_piece(found, seq::node_state)));
}

void Store::seal_or_wait(Sequence &seq, AppendPlan &plan) {
  if (plan.sealed == seq.sealed) return;
  const uint64_t last = plan.sealed - 1;
  if (last > seq.sealed) seal(seq, last, &*plan.pieces);
  if (!waits_for_snapshot(seq, last)) return seal(seq, plan.sealed, &*plan.pieces);
  std::lock_guard lock(mutex_);
  index_->unreserve(1);
}

/// Can a sequence of this length do with `chunk`, which was there first?  It can if that has the window rows that queries behind the tip see, and
/// a snapshot at its end if the sequence brings one.  Under the lock.
bool Store::serves(const Sequence &seq, Ref chunk, uint64_t number, uint64_t length, bool brings_snapshot) const {
  if (!covers(seq, rows_of(index_->find_piece(chunk, seq::node_window)), number, length, {})) return false;
  return !brings_snapshot || snapshot_whole(seq, rows_of(index_->find_piece(chunk, seq::node_state)));
}

/// Has it a snapshot of its own at the end of a chunk, of every layer?
bool Store::brings_snapshot(const Sequence &seq, uint64_t chunk) const {
  OpenChunk *const snapshot = Pieces::find(seq.pieces->states, (chunk + 1) * seq.chunk_tokens());
  return snapshot && snapshot->own() && snapshot_whole(seq, {snapshot->data, {}});
}

/// The pieces of a chunk that somebody else sealed are read from now on, where they have what the sequence needs.  Under the lock.
void Store::use_pieces_of(Sequence &seq, PiecePlan &plan, Ref chunk, uint64_t number) {
  const Ref window = index_->find_piece(chunk, seq::node_window);
  const bool joins = !seq.part->is_whole() && seq.pieces->is_pending(number);  // what it brings may be what is lacking
  if (window && covers(seq, rows_of(window), number, seq.length, {})) {
    auto &list = seq.pieces->windows;
    const auto found = place(list, number);
    if (found != list.end() && found->at == number) {
      if (found->rows->own() && !joins) use_piece_of(*found->rows, window);
    } else if (window_begin(seq.length, seq.part->window_max) < (number + 1) * seq.chunk_tokens() && !plan.spares.empty()) {
      use_piece_of(*list.insert(found, {number, plan.spares.back()})->rows, window);
      plan.spares.pop_back();
    }
  } else if (OpenChunk *const rows = Pieces::find(seq.pieces->windows, number); rows && rows->own() && !seq.pieces->is_pending(number) && window_begin(seq.length, seq.part->window_max) >= (number + 1) * seq.chunk_tokens()) {
    seq.pieces->windows.erase(place(seq.pieces->windows, number));  // no query sees them, and they are not of this chunk's writer
    open_chunk_unref(rows);
  }
  use_snapshot_of(seq, chunk, number);
}

void Store::use_piece_of(OpenChunk &rows, Ref piece) {
  if (rows.own()) {
    open_bytes_.fetch_sub(slab_.bytes(rows.slot), std::memory_order_relaxed);
    slab_.give(rows.slot);
    rows.slot = {};
    rows.quota.end();
  }
  rows.held = piece;
  index_->pin(piece);
}

/// The sequence's snapshot at the chunk's end gives way to the chunk's.  Under the lock.
void Store::use_snapshot_of(Sequence &seq, Ref chunk, uint64_t number) {
  const Ref state = index_->find_piece(chunk, seq::node_state);
  OpenChunk *const rows = Pieces::find(seq.pieces->states, (number + 1) * seq.chunk_tokens());
  if (state && rows && rows->own() && snapshot_whole(seq, rows_of(state))) use_piece_of(*rows, state);
}

/// The rows of a sealed chunk of the sequence's own become a piece of it; true when that took a node.
bool Store::seal_piece(Sequence &seq, OpenChunk &rows, Piece piece, uint64_t chunk) {
  const Part &part = *seq.part;
  const ChunkLayout &layout = part.layout_of(piece);
  const Ref main = seq.table->refs[chunk];
  const seq::Node &node = index_->node(main);
  const uint8_t *write_id = chunk_write_id(*seq.scope, node);
  write_headers(seq, layout, rows.data, write_id, node.name);
  if (!part.is_whole()) begin_slice(rows.data, part, rows.slot, write_id);
  const seq::NodeFlags kind = piece == Piece::window ? seq::node_window : seq::node_state;
  seq::Node made{};
  made.flags = kind | (part.is_whole() ? 0u : seq::node_sliced | seq::node_partial);
  made.payload = reinterpret_cast<uint64_t>(rows.data);
  std::lock_guard lock(mutex_);
  if (const Ref first = index_->find_piece(main, kind)) {
    join_piece(seq, rows, piece, chunk, first);
    return false;
  }
  made.tick = next_tick();
  rows.held = index_->insert_piece(made, main, owner_of(rows.slot, *seq.scope));
  if (!part.is_whole()) note_complete(*seq.scope, rows.held);
  seq.scope->settle(clock_.now_ns());
  seq.scope->bytes_host += slab_.bytes(rows.slot);
  seq.scope->piece_count++;
  open_bytes_.fetch_sub(slab_.bytes(rows.slot), std::memory_order_relaxed);
  rows.slot = {};
  rows.quota.end();
  return true;
}

/// Lets go of what no later query of the sequence sees and no chunk waits for.  Under the lock.
void Store::drop_passed(Sequence &seq) {
  Pieces &pieces = *seq.pieces;
  const uint64_t chunk_tokens = seq.chunk_tokens(), seen = window_begin(seq.length, seq.part->window_max), states_least = least_filled(seq, KVC_LAYER_STATE);
  const auto let_go = [&](OpenChunk *rows) {
    open_chunk_unref(rows);
    return true;
  };
  std::erase_if(pieces.windows, [&](const Pieces::Entry &e) {
    const bool waits = e.rows->own() && (e.at >= seq.sealed || pieces.is_pending(e.at));
    return !waits && (e.at + 1) * chunk_tokens <= seen && let_go(e.rows);
  });
  std::erase_if(pieces.states, [&](const Pieces::Entry &e) {
    if (states_least <= e.at) {
      const ChunkLayout &layout = seq.part->states;
      bool stands = false, passed = false;  // does a layer stand there, or can none complete it any more?
      for (uint32_t l = 0; l < layout.layer_count(); l++) {
        if (!layout.page(l).present()) continue;
        stands = stands || seq.filled[l] == e.at;
        passed = passed || (e.rows->own() && seq.filled[l] > e.at && !layout.mark(e.rows->data, l));
      }
      if (stands || !passed) return false;
    }
    const bool waits = e.rows->own() && e.at % chunk_tokens == 0 && e.at > seq.sealed_tokens() && snapshot_whole(seq, {e.rows->data, {}});
    return !waits && let_go(e.rows);
  });
}

/// After rows were copied and main pieces sealed: nothing here can fail.
void Store::settle_pieces(Sequence &seq, PiecePlan &plan) {
  Pieces &pieces = *seq.pieces;
  const uint64_t chunk_tokens = seq.chunk_tokens(), windows_least = least_filled(seq, KVC_LAYER_WINDOW), states_least = least_filled(seq, KVC_LAYER_STATE);
  const auto seal_own = [&](const Pieces::Entry &entry, Piece piece, uint64_t chunk) {
    if (!entry.rows->own() || !pieces.is_pending(chunk)) return;
    if (seq.is_private && index_->node(seq.table->refs[chunk]).name != seq::Name{}) return;  // one of before it was private: others read its pieces
    if (seal_piece(seq, *entry.rows, piece, chunk)) plan.nodes_reserved--;
  };
  for (const Pieces::Entry &entry : pieces.windows)
    if ((entry.at + 1) * chunk_tokens <= windows_least) seal_own(entry, Piece::window, entry.at);
  for (const Pieces::Entry &entry : pieces.states)
    if (entry.at % chunk_tokens == 0 && entry.rows->own() && snapshot_whole(seq, {entry.rows->data, {}})) seal_own(entry, Piece::state, entry.at / chunk_tokens - 1);
  std::erase_if(pieces.pending, [&](uint64_t chunk) { return (chunk + 1) * chunk_tokens <= std::min(windows_least, states_least); });
  std::lock_guard lock(mutex_);
  for (const Pieces::Entry &entry : pieces.states) {  // those that came after their chunk, which is another writer's
    const uint64_t chunk = entry.at / chunk_tokens - 1;
    if (entry.rows->own() && entry.at % chunk_tokens == 0 && entry.at <= seq.sealed_tokens() && !pieces.is_pending(chunk) && snapshot_whole(seq, {entry.rows->data, {}})) use_snapshot_of(seq, seq.table->refs[chunk], chunk);
  }
  drop_passed(seq);
  for (OpenChunk *spare : plan.spares) destroy(&resource_, spare);
  index_->unreserve(plan.nodes_reserved);
}

}  // namespace kvc::store
