#include "store/sequence.h"

#include <algorithm>
#include <cstring>

#include "store/memory.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;

namespace {

constexpr uint32_t kSeqFlagsKnown = KVC_SEQ_PRIVATE | KVC_SEQ_NO_CUT | KVC_SEQ_PEEK;

kvc_status check_seq_options(const kvc_seq_options &o, const Scope &scope, Error &error) {
  if (!scope.has_shape()) return fail(error, KVC_ERR_SHAPE, "the scope has no shape: it holds objects only");
  if (o.flags & ~kSeqFlagsKnown) return fail(error, KVC_ERR_TOO_NEW, "seq flags 0x%x: unknown bits", o.flags & ~kSeqFlagsKnown);
  if (o.precision) return fail(error, KVC_ERR_UNSUPPORTED, "precision: pages are exact in this build");
  if (o.tier > KVC_TIER_REMOTE) return fail(error, KVC_ERR_ARGUMENT, "tier %u: no such tier", o.tier);
  if (o.tier && o.tier != KVC_TIER_HOST) return fail(error, KVC_ERR_UNSUPPORTED, "tier %u: this build has the host tier only", o.tier);
  if (o.reserved) return fail(error, KVC_ERR_TOO_NEW, "reserved is %u: it must be 0", o.reserved);
  if (!o.extras && o.extra_count) return fail(error, KVC_ERR_ARGUMENT, "extras is NULL but extra_count is %llu", static_cast<unsigned long long>(o.extra_count));
  return KVC_OK;
}

}  // namespace

kvc_status check_attach_options(const kvc_seq_options &o, const Scope &scope, Error &error) {
  KVC_TRY(check_seq_options(o, scope, error));
  if (o.flags & ~static_cast<uint32_t>(KVC_SEQ_PRIVATE)) return fail(error, KVC_ERR_ARGUMENT, "seq flags 0x%x: only a match takes them", o.flags);
  if (o.extra_count) return fail(error, KVC_ERR_ARGUMENT, "extra_count %llu: an attached sequence has the extras of the published one", static_cast<unsigned long long>(o.extra_count));
  if (o.first_position) return fail(error, KVC_ERR_ARGUMENT, "first_position %llu: an attached sequence has that of the published one", static_cast<unsigned long long>(o.first_position));
  return KVC_OK;
}

kvc_status Store::make_sequence(SequencePtr *out, Scope &scope, const kvc_seq_options &o, Error &error) {
  KVC_TRY(check_seq_options(o, scope, error));
  const Part *part;
  KVC_TRY(find_part(&part, scope, o, error));
  SequencePtr seq(make<Sequence>(&resource_, &resource_), SequenceDelete{&resource_});
  seq->scope = &scope;
  seq->part = part;
  seq->is_private = (o.flags & KVC_SEQ_PRIVATE) != 0;
  seq->lease_ns = o.lease_ms ? base::ns_of_ms(o.lease_ms) : lease_ns_;
  std::memcpy(seq->write_id, o.write_id, sizeof seq->write_id);
  seq->write_id_given = std::any_of(std::begin(o.write_id), std::end(o.write_id), [](uint8_t b) { return b != 0; });
  seq->first_position = o.first_position;
  seq->root = seq::first_chunk_parent(scope.name, o.first_position);
  seq->filled.assign(seq->part->shape.layer_count, 0);
  if ((seq->is_pieced = seq->part->pieced())) seq->pieces.emplace(&resource_);
  if (o.extra_count) KVC_TRY(seq->extras.add(o.extras, o.extra_count, error));
  *out = std::move(seq);
  return KVC_OK;
}

/// Under the lock.
kvc_status Store::add_handle(uint64_t *token, Sequence &seq, Error &error) {
  *token = 0;
  try {
    *token = seq_handles_.add(&seq);
  } catch (const std::bad_alloc &) {
    return fail(error, KVC_ERR_NO_MEMORY, "a sequence: the system refused memory");
  }
  if (!*token) return fail(error, KVC_ERR_FULL, "%u sequences are open: release some or raise seq_max", seq_handles_.live_count());
  use(seq);
  seq.scope->users++;
  seq.scope->seq_count++;
  return KVC_OK;
}

/// Gives the sequence its handle; on failure what it holds is let go.
kvc_status Store::add_sequence(uint64_t *token, SequencePtr seq, Error &error) {
  slide(*seq);
  std::lock_guard lock(mutex_);
  const kvc_status status = add_handle(token, *seq, error);
  if (status != KVC_OK) let_go(*seq);
  else (void)seq.release();
  return status;
}

kvc_status Store::seq_create(uint64_t *token, Scope &scope, const kvc_seq_options &o, Error &error) {
  if (o.flags & ~KVC_SEQ_PRIVATE & kSeqFlagsKnown) return fail(error, KVC_ERR_ARGUMENT, "seq flags 0x%x: only a match takes them", o.flags);
  SequencePtr seq(nullptr, SequenceDelete{&resource_});
  KVC_TRY(make_sequence(&seq, scope, o, error));
  return add_sequence(token, std::move(seq), error);
}

void Store::table_unref(Table *table) {
  if (table && table->users.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(&resource_, table);
}

/// Under the lock.
void Store::open_chunk_unref(OpenChunk *open) {
  if (!open) return;
  const uint32_t users = open->users.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (open->held && !open->gone && users == open->lapsed) index_->unpin(open->held, next_tick(), users == 0);
  if (users) return;
  if (open->slot.generation) {
    open_bytes_.fetch_sub(slab_.bytes(open->slot), std::memory_order_relaxed);
    slab_.give(open->slot);
  }
  destroy(&resource_, open);
}

/// Lets go of the open chunks after the first `keep`.  Under the lock.
void Store::drop_open(Sequence &seq, uint64_t keep) {
  for (uint64_t i = keep; i < seq.open.size(); i++) open_chunk_unref(seq.open[i]);
  seq.open.resize(std::min<uint64_t>(keep, seq.open.size()));
}

/// Everything that the sequence holds; it is not used again.  Under the lock.
void Store::let_go(Sequence &seq) {
  if (seq.pinned) index_->unpin(seq.pinned, seq.used_tick.load(std::memory_order_relaxed) + seq.kept_ticks, true);
  if (seq.done && seq.pinned) index_->go_first(seq.pinned, next_tick());
  else if (seq.done) index_->unreserve_first();
  drop_open(seq, 0);
  if (seq.pieces) {
    for (const auto *list : {&seq.pieces->windows, &seq.pieces->states})
      for (const Pieces::Entry &e : *list) open_chunk_unref(e.rows);
    seq.pieces.reset();
  }
  table_unref(seq.table);
}

/// Ends a sequence that has no handle.  Under the lock.
void Store::drop_sequence(Sequence *seq) {
  let_go(*seq);
  SequenceDelete{&resource_}(seq);
}

/// Pins the last held chunk of the sequence instead of what it pinned before.  Under the lock.
void Store::pin_tip(Sequence &seq) {
  const Ref before = seq.pinned;
  seq.pinned = seq.held ? seq.table->refs[seq.held - 1] : Ref{};
  if (seq.pinned) index_->pin(seq.pinned);
  if (before) index_->unpin(before, seq.used_tick.load(std::memory_order_relaxed), true);
}

void Store::seq_release(Sequence &seq, const base::Token &token) {
  const Aging aging(*this, *seq.scope);
  std::unique_lock lock(mutex_);
  if (seq_handles_.lapsed(token)) take_up(seq);  // to let go of private chunks below
  const bool waits = !seq_handles_.lapsed(token) && keep_waiting(seq);
  seq_handles_.remove(token);
  if (!waits) let_go(seq);
  Scope *scope = seq.scope;
  scope->seq_count--;
  scope->users--;
  forget_scope(scope);
  lock.unlock();
  if (!waits) SequenceDelete{&resource_}(&seq);
  queues_.room_freed();
}

uint64_t tokens_left(const Sequence &seq) {
  if (seq.pieces && seq.pieces->left != UINT64_MAX) return seq.pieces->left;
  if (seq.held < seq.sealed) return seq.held * seq.chunk_tokens();
  for (size_t i = 0; i < seq.open.size(); i++)
    if (seq.open[i] && seq.open[i]->gone) return (seq.sealed + i) * seq.chunk_tokens();
  return UINT64_MAX;
}

kvc_status check_left(const Sequence &seq, uint64_t tokens, Error &error) {
  const uint64_t left = tokens_left(seq);
  if (tokens <= left) return KVC_OK;
  return fail(error, KVC_ERR_GONE, "tokens up to %llu: %llu are left after a lapse: truncate to that to go on", static_cast<unsigned long long>(tokens), static_cast<unsigned long long>(left));
}

kvc_status fail_lapsed(const Sequence &seq, uint64_t from, Error &error) {
  return fail(error, KVC_ERR_GONE, "tokens from %llu on were evicted after the lease lapsed: %llu are left: truncate to that to go on", static_cast<unsigned long long>(from),
              static_cast<unsigned long long>(tokens_left(seq)));
}

/// Leaves go first, so what is left is a leading part; a chunk that failed its check ends it too.  Under the lock.
uint64_t Store::leading_held(const Sequence &seq) const {
  uint64_t held = 0;
  while (held < seq.held && index_->held(seq.table->refs[held])) held++;
  return held;
}

/// Chunks in front that go by their names: those behind one that does not have none either.  Under the lock.
uint64_t Store::leading_named(const Sequence &seq) const {
  if (!seq.table) return 0;
  const auto begin = seq.table->refs.begin(), end = begin + static_cast<int64_t>(seq.sealed);
  const auto is_named = [&](Ref ref) { return index_->held(ref) && !(index_->node(ref).flags & seq::node_unnamed); };
  // Of a part, chunks without a name may have some with one behind them.
  const auto last = seq.part->is_whole() ? std::partition_point(begin, end, is_named) : std::find_if_not(begin, end, is_named);
  return static_cast<uint64_t>(last - begin);
}

/// Lets chunks be evicted: the sealed ones, and those that open rows are taken from.  False when it holds none.  Under the lock, with no
/// call inside.
bool Store::lapse(Sequence &seq) {
  const uint64_t tick = seq.used_tick.load(std::memory_order_relaxed) + seq.kept_ticks;
  bool held = false;
  seq.each_open([&](OpenChunk &open) {
    if (!open.held || open.gone) return;
    held = true;
    if (++open.lapsed == open.users.load(std::memory_order_relaxed)) index_->unpin(open.held, tick, false);
  });
  if (seq.pinned) index_->unpin(seq.pinned, tick, false);
  return held || seq.pinned;
}

/// Pins what is left after a lapse.  Under the lock.
void Store::take_up(Sequence &seq) {
  seq.held = leading_held(seq);
  seq.pinned = seq.held ? seq.table->refs[seq.held - 1] : Ref{};
  if (seq.pinned) index_->pin(seq.pinned);
  bool lost = seq.held < seq.sealed;
  seq.each_open([&](OpenChunk &open) {
    if (!open.held) return;
    if (!open.gone && open.lapsed-- == open.users.load(std::memory_order_relaxed)) {  // else a fork held it
      if (index_->held(open.held)) index_->pin(open.held);
      else open.gone = true;
    }
    lost = lost || open.gone;
  });
  if (lost && seq.pieces) seq.pieces->left = left_of_pieces(seq, seq.held);
}

void Store::revive(Sequence &seq, const base::Token &token) {
  std::lock_guard lock(mutex_);
  if (!seq_handles_.lapsed(token)) return;
  take_up(seq);
  slide(seq);
  seq_handles_.clear_lapsed(token.index);
}

kvc_status Store::identify(Sequence &seq, std::span<const kvc_extra> extras, Error &error) {
  if (extras.empty()) return fail(error, KVC_ERR_ARGUMENT, "extra_count 0: nothing to identify");
  // Rows that were taken from a chunk held under the old name cannot get another one.
  const uint64_t chunk_tokens = seq.chunk_tokens(), filled = *std::max_element(seq.filled.begin(), seq.filled.end());
  uint64_t fixed = seq.sealed_tokens();
  for (uint64_t i = 0; i < seq.open.size(); i++)
    if (seq.open[i] && seq.open[i]->held) fixed = std::max(fixed, std::min(filled, (seq.sealed + i + 1) * chunk_tokens));
  for (size_t i = 0; i < extras.size(); i++)
    if (extras[i].token_begin < fixed)
      return fail(error, KVC_ERR_RANGE, "extras[%zu] begins at token %llu: rows below token %llu are held under their name already", i,
                  static_cast<unsigned long long>(extras[i].token_begin), static_cast<unsigned long long>(fixed));
  KVC_TRY(seq.extras.add(extras.data(), extras.size(), error, std::max(seq.truncated_to, fixed)));
  seq.truncated_to = UINT64_MAX;
  seq.names.clear();
  return KVC_OK;
}

void Store::seq_info(kvc_seq_info &info, const Sequence &seq) {
  const ChunkLayout &layout = seq.part->layout;
  const uint64_t now = clock_.now_ns(), deadline_ns = seq.deadline_ns.load(std::memory_order_relaxed);
  std::lock_guard lock(mutex_);  // a lapsed one may be taken up meanwhile, and chunks may go
  const bool lapsed = deadline_ns <= now;
  const uint64_t held = lapsed ? leading_held(seq) : seq.held;
  info.copies = 1;
  info.tokens = seq.length;
  info.tokens_given = seq.given;
  info.tokens_sealed = seq.sealed_tokens();
  info.tokens_end = truncate_end(seq);
  info.tokens_held = held < seq.sealed ? held * seq.chunk_tokens() : seq.length;
  const uint64_t named = leading_named(seq);
  info.tokens_shareable = named == seq.sealed && !seq.is_private ? seq.length : named * seq.chunk_tokens();
  uint64_t slots = held;
  for (size_t i = 0; i < seq.open.size(); i++) {
    const OpenChunk *open = seq.open[i];
    const bool gone = open && open->held && (open->gone || (lapsed && !index_->held(open->held)));
    if (gone) info.tokens_held = std::min(info.tokens_held, (seq.sealed + i) * seq.chunk_tokens());
    slots += open && !gone;
  }
  uint64_t pieces_bytes = 0;
  if (seq.pieces) {
    bool lost = held < seq.sealed || info.tokens_held < seq.length;
    seq.each_open([&](const OpenChunk &open) { lost = lost || (open.held && (open.gone || (lapsed && !index_->held(open.held)))); });
    if (lost) info.tokens_held = std::min(info.tokens_held, left_of_pieces(seq, held));
    pieces_bytes = seq.pieces->windows.size() * seq.part->windows.slot_bytes() + seq.pieces->states.size() * seq.part->states.slot_bytes();
  }
  info.bytes_host = slots * layout.slot_bytes() + pieces_bytes;
  info.lease_left_ms = deadline_ns == KVC_FOREVER ? KVC_FOREVER : deadline_ns > now ? (deadline_ns - now) / 1000000u : 0;
  uint64_t numbers = 0, units = 0;
  for (const seq::LayerRun &run : seq.part->shape.runs) {
    if (!run.keeps_all()) continue;
    numbers += static_cast<uint64_t>(run.layer_count) * run.kv_heads * (uint64_t{run.k_dim} + run.second_dim()) * seq.chunk_tokens();
    units += static_cast<uint64_t>(run.layer_count) * run.kv_heads * 2;
  }
  info.bits_effective = slots && numbers ? static_cast<double>(layout.slot_bytes()) * 8 / static_cast<double>(numbers) : 0;
  info.width_pages[16] = slots * units;
}

}  // namespace kvc::store
