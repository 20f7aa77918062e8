#include <algorithm>

#include "store/cut.h"
#include "store/memory.h"
#include "store/slices.h"

/// Fork and truncate: sequences that share what they have in common.
namespace kvc::store {

using base::fail;

/// All of a sequence, for a handle of its own; shares what it can.  Nobody writes to `from` meanwhile.
Store::SequencePtr Store::copy_of(const Sequence &from) {
  SequencePtr seq(make<Sequence>(&resource_, &resource_), SequenceDelete{&resource_});
  static_cast<SequenceState &>(*seq) = from;  // nothing below fails: what it names is used once more
  if (seq->table) seq->table->users.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  seq->each_open([](OpenChunk &open) { open.users.fetch_add(1, std::memory_order_relaxed); });
  if (seq->pinned) index_->pin(seq->pinned);
  return seq;
}

kvc_status Store::fork(uint64_t *token, const Sequence &from, uint64_t tokens, Error &error) {
  const uint64_t wanted = tokens == KVC_ALL ? from.length : tokens;
  if (wanted > from.length) return fail(error, KVC_ERR_RANGE, "tokens %llu: the sequence has %llu", static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(from.length));
  KVC_TRY(check_left(from, wanted, error));
  SequencePtr seq = copy_of(from);
  Sequence &made = *seq;
  if (tokens != KVC_ALL) {
    kvc_status status;
    try {
      status = truncate(made, wanted, error);
    } catch (const std::bad_alloc &) {
      status = fail(error, KVC_ERR_NO_MEMORY, "fork: the system refused memory");
    }
    if (status != KVC_OK) {
      std::lock_guard lock(mutex_);
      let_go(made);
      return status;
    }
  }
  return add_sequence(token, std::move(seq), error);
}

/// The ids kept with a chunk are those of its name, or it is dropped and reads as gone: they will name what is appended next.
kvc_status Store::check_ids(const Sequence &seq, uint64_t chunk, Error &error) {
  const Ref ref = seq.table->refs[chunk];
  const seq::Name &name = index_->node(ref).name;
  if (name == seq::Name{}) return KVC_OK;  // of a private sequence
  thread_local seq::ChunkNamer namer;
  const uint64_t chunk_tokens = seq.chunk_tokens();
  const int32_t *ids = chunk_ids(*seq.scope, index_->node(ref));
  const seq::Name &parent = chunk ? index_->node(seq.table->refs[chunk - 1]).name : seq.root;
  if (static_cast<uint32_t>(ids[0]) == chunk_tokens &&
      namer.next(parent, ids + 1, static_cast<uint32_t>(chunk_tokens), chunk * chunk_tokens, seq.extras.all()) == name)
    return KVC_OK;
  checksum_failed("a chunk with its token ids");
  std::lock_guard lock(mutex_);
  index_->drop(ref);
  return fail(error, KVC_ERR_GONE, "the token ids of the chunk at token %llu do not match its name: it was dropped; truncate to that or less to go on",
              static_cast<unsigned long long>(chunk * chunk_tokens));
}

/// The chunk that `tokens` cuts becomes open, its rows those of the sealed chunk until somebody writes.
kvc_status Store::reopen(Sequence &seq, uint64_t chunk, uint64_t rows, Error &error) {
  const Ref ref = seq.table->refs[chunk];
  OpenChunk *open = nullptr;
  if (rows) {
    uint8_t *slot;
    KVC_TRY(chunk_data(&slot, seq, chunk, error));
    KVC_TRY(check_ids(seq, chunk, error));
    seq.ids.reserve(rows);
    seq.open.reserve(1);
    open = make<OpenChunk>(&resource_);
    open->held = ref;
    if (seq.pieces && seq.pieces->is_pending(chunk)) open->cut_from = ref;
    const int32_t *ids = chunk_ids(*seq.scope, index_->node(ref));
    seq.ids.assign(ids + 1, ids + 1 + std::min<uint64_t>(static_cast<uint32_t>(ids[0]), rows));  // none in a private sequence without ids
  } else {
    seq.ids.clear();
  }
  std::lock_guard lock(mutex_);
  drop_open(seq, 0);
  if (open) {
    index_->pin(ref);
    seq.open.push_back(open);
  }
  seq.names.clear();
  seq.sealed = seq.held = chunk;
  pin_tip(seq);
  return KVC_OK;
}

kvc_status Store::truncate(Sequence &seq, uint64_t tokens, Error &error) {
  if (tokens > seq.length) return fail(error, KVC_ERR_RANGE, "tokens %llu: the sequence has %llu", static_cast<unsigned long long>(tokens), static_cast<unsigned long long>(seq.length));
  const uint64_t chunk_tokens = seq.chunk_tokens(), chunk = tokens / chunk_tokens, rows = tokens % chunk_tokens;
  KVC_TRY(check_left(seq, tokens, error));
  std::optional<Cut> cut;
  if (seq.pieces) KVC_TRY(plan_cut(cut.emplace(*this, tokens), seq, tokens, error));
  if (tokens < seq.sealed_tokens()) {
    KVC_TRY(reopen(seq, chunk, rows, error));
  } else {
    const uint64_t open = chunk - seq.sealed;
    std::lock_guard lock(mutex_);
    drop_open(seq, open + (rows != 0));
    if (seq.ids.size() > tokens - seq.sealed_tokens()) seq.ids.resize(tokens - seq.sealed_tokens());
    if (seq.names.size() > open) seq.names.resize(open);
  }
  if (cut) {  // window and state layers may be behind
    for (uint64_t &filled : seq.filled) filled = std::min(filled, tokens);
  } else {
    std::fill(seq.filled.begin(), seq.filled.end(), tokens);
  }
  seq.length = tokens;
  seq.given = std::min(seq.given, tokens);
  if (cut) {
    std::lock_guard lock(mutex_);
    apply_cut(*cut, seq);
  }
  queues_.room_freed();
  // Extras stay: a host whose gather failed truncates and appends the same prompt again, which must keep its name.
  seq.truncated_to = tokens;
  return KVC_OK;
}

}  // namespace kvc::store
