#include <algorithm>
#include <utility>

#include "store/memory.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;

/// Names are made outside the lock; how many are asked for at once doubles, so that an early miss does not hash the rest.
struct Store::Walk {
  static constexpr size_t batch_max = 64;

  seq::ChunkNamer &namer;
  std::span<const int32_t> tokens;
  std::span<const seq::Extra> extras;
  uint32_t chunk_tokens;
  seq::Name parent;
  uint64_t chunk = 0, chunk_max;
  seq::Name names[batch_max];

  size_t next(size_t want) {
    size_t n = 0;
    for (; n < want && chunk < chunk_max; n++, chunk++) {
      names[n] = namer.next(parent, tokens.data() + chunk * chunk_tokens, chunk_tokens, chunk * chunk_tokens, extras);
      parent = names[n];
    }
    return n;
  }
};

/// Appends to its table the chunks of the walk that are held; true when it ended because one was not.
bool Store::walk_held(const Sequence &seq, Walk &walk) {
  Table &table = *seq.table;
  bool waits = false;
  for (size_t want = 1; size_t n = walk.next(want); want = std::min(want * 2, Walk::batch_max)) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < n; i++) index_->prefetch(walk.names[i]);
    for (size_t i = 0; i < n; i++) {
      const Ref parent = table.refs.empty() ? Ref{} : table.refs.back();
      Ref ref = index_->find_child(walk.names[i], parent);
      if (ref && (index_->node(ref).flags & seq::node_waits) && !std::exchange(waits, true)) [[unlikely]] ref = find_now(walk.names[i], parent);
      if (!ref || !has_part(*seq.scope, ref, *seq.part)) return true;
      table.refs.push_back(ref);
    }
  }
  return false;
}

/// Of models with window or state layers: where the match ends, which may be before the last chunk that attention alone could take.
kvc_status Store::end_by_pieces(SequencePtr &seq, kvc_match_info &info, bool peek, Error &error) {
  if (peek) {
    std::lock_guard lock(mutex_);
    seq->length = pieces_end(*seq, seq->table->refs, &info.stop) * seq->chunk_tokens();
    seq->sealed = seq->length / seq->chunk_tokens();
    return KVC_OK;
  }
  try {
    match_pieces(*seq, &info.stop);
    seq->table->refs.resize(seq->sealed);
    return KVC_OK;
  } catch (const std::bad_alloc &) {
    std::lock_guard lock(mutex_);
    let_go(*seq);
  }
  return fail(error, KVC_ERR_NO_MEMORY, "match: the system refused memory");
}

kvc_status Store::match(uint64_t *token, kvc_match_info &info, Scope &scope, std::span<const int32_t> tokens, const kvc_seq_options &o, Error &error) {
  SequencePtr seq(nullptr, SequenceDelete{&resource_});
  KVC_TRY(make_sequence(&seq, scope, o, error));
  if (!(o.flags & KVC_SEQ_PEEK) && seq_handles_.live_count() >= seq_max_) return fail(error, KVC_ERR_FULL, "%u sequences are open: release some or raise seq_max", seq_max_);
  const Aging aging(*this, scope);
  const LapsesToLog lapses{*this};
  thread_local seq::ChunkNamer namer;
  const uint64_t chunk_tokens = scope.layout.chunk_tokens();
  const uint64_t look = std::min<uint64_t>(tokens.size(), o.tokens_max ? o.tokens_max : KVC_ALL);
  Walk walk{namer, tokens, seq->extras.all(), static_cast<uint32_t>(chunk_tokens), seq->root, 0, look / chunk_tokens, {}};
  seq->table = make<Table>(&resource_, &resource_);
  Table &table = *seq->table;
  bool absent = false;
  try {
    table.refs.reserve(std::min<uint64_t>(look / chunk_tokens, 64));
    absent = walk_held(*seq, walk);
  } catch (...) {
    table_unref(seq->table);
    throw;
  }
  const bool peek = o.flags & KVC_SEQ_PEEK;
  uint64_t chunks = table.refs.size();
  {
    std::lock_guard lock(mutex_);
    while (chunks && !index_->held(table.refs[chunks - 1])) chunks--, absent = true;  // went while we looked
    if (chunks && !peek) {
      seq->pinned = table.refs[chunks - 1];
      index_->pin(seq->pinned);
    }
  }
  table.refs.resize(chunks);
  seq->sealed = seq->held = chunks;
  seq->length = seq->given = chunks * chunk_tokens;
  std::fill(seq->filled.begin(), seq->filled.end(), seq->length);
  info.stop = absent ? KVC_STOP_ABSENT : KVC_STOP_END;
  info.tokens_attention = seq->length;
  if (seq->part->pieced()) KVC_TRY(end_by_pieces(seq, info, peek, error));
  info.tokens = info.tokens_hot = seq->length;
  const uint64_t rate = gather_bytes_per_ms_.load(std::memory_order_relaxed);
  info.fetch_us = rate ? seq->sealed * seq->part->layout.payload_bytes() * 1000 / rate : 0;
  info.prefill_us = static_cast<uint64_t>(std::min(static_cast<double>(seq->length) * static_cast<double>(o.prefill_ns_per_token) / 1000, 0x1p62));
  if (peek) {
    table_unref(seq->table);
    return KVC_OK;
  }
  metrics_.match_calls.fetch_add(1, std::memory_order_relaxed);
  metrics_.match_tokens.fetch_add(tokens.size(), std::memory_order_relaxed);
  metrics_.hit_tokens.fetch_add(info.tokens, std::memory_order_relaxed);
  scope.hit_tokens.fetch_add(info.tokens, std::memory_order_relaxed);
  scope.miss_tokens.fetch_add(tokens.size() - info.tokens, std::memory_order_relaxed);
  return add_sequence(token, std::move(seq), error);
}

}  // namespace kvc::store
