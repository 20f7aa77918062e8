#include <algorithm>

#include "store/memory.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;

/// A handle for `lease`, which pins its refs already; takes it over.
kvc_status Store::add_lease(uint64_t *token, Lease *lease, uint64_t lease_ms, Error &error) {
  lease->deadline_ns.store(deadline(lease_ms ? base::ns_of_ms(lease_ms) : lease_ns_), std::memory_order_relaxed);
  *token = 0;
  std::lock_guard lock(mutex_);
  bool refused = false;
  try {
    *token = lease_handles_.add(lease);
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  if (*token) return KVC_OK;
  for (const Ref ref : lease->refs) index_->unpin(ref, 0, true);
  destroy_lease(lease);
  if (refused) return fail(error, KVC_ERR_NO_MEMORY, "a lease: the system refused memory");
  return fail(error, KVC_ERR_FULL, "%u leases are held: the limit", lease_handles_.live_count());
}

/// The lease holds what a match that ends behind so many chunks needs, as far as it is there.  Room was made before.  Under the lock.
void Store::lease_pieces(Lease &lease, const Sequence &seq, uint64_t chunks) {
  if (!chunks) return;
  const auto hold = [&](uint64_t chunk, seq::NodeFlags kind) {
    const Ref piece = index_->find_piece(seq.table->refs[chunk], kind);
    if (!piece || std::find(lease.refs.begin(), lease.refs.end(), piece) != lease.refs.end()) return;
    index_->pin(piece);
    lease.refs.push_back(piece);
  };
  hold(chunks - 1, seq::node_state);
  const uint64_t chunk_tokens = seq.chunk_tokens(), seen = window_begin(chunks * chunk_tokens, seq.part->window_max);
  for (uint64_t c = seen / chunk_tokens; seq.part->window_max && c < chunks; c++) hold(c, seq::node_window);
}

/// Does a lease of its own hold this chunk, the so many-th of a sequence, or what comes behind it?  Under the lock.
bool Store::is_leased(Ref chunk, uint64_t number) {
  const uint64_t now_ns = clock_.now_ns();
  bool found = false;
  lease_handles_.each([&](uint32_t, void *object) {
    const Lease &lease = *static_cast<const Lease *>(object);
    found = found || (number < lease.chunk_count && lease.chunks->refs[number] == chunk && lease.deadline_ns.load(std::memory_order_relaxed) > now_ns);
  });
  return found;
}

void Store::destroy_lease(Lease *lease) {
  table_unref(lease->chunks);
  destroy(&resource_, lease);
}

kvc_status Store::seq_lease(uint64_t *token, const Sequence &seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, Error &error) {
  if (token_begin > seq.length || (token_count != KVC_ALL && token_count > seq.length - token_begin))
    return fail(error, KVC_ERR_RANGE, "tokens [%llu, +%llu): the sequence has %llu", static_cast<unsigned long long>(token_begin), static_cast<unsigned long long>(token_count), static_cast<unsigned long long>(seq.length));
  if (token_count == 0) return fail(error, KVC_ERR_ARGUMENT, "token_count 0: nothing to lease");
  const uint64_t end = token_count == KVC_ALL ? seq.length : token_begin + token_count, chunk_tokens = seq.chunk_tokens();
  KVC_TRY(check_left(seq, end, error));
  // Open rows have no name to be found by later: a lease holds the sealed chunks of the range.
  const uint64_t chunks = std::min((end + chunk_tokens - 1) / chunk_tokens, seq.sealed);
  Lease *lease = make<Lease>(&resource_, &resource_);
  // The most that matches need which end at two places.
  const size_t pieces = seq.pieces && chunks ? 2 * (std::min<uint64_t>(seq.part->window_max / chunk_tokens, chunks) + 3) : 0;
  try {
    lease->refs.reserve(1 + pieces);
    if (chunks) lease->refs.push_back(seq.table->refs[chunks - 1]);  // holds all before it
  } catch (...) {
    destroy(&resource_, lease);
    throw;
  }
  lease->tick = next_tick();
  lease->chunk_count = chunks;
  if (chunks) {
    lease->chunks = seq.table;
    seq.table->users.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    index_->pin(lease->refs.back());
    if (pieces) {
      lease_pieces(*lease, seq, chunks);
      // Who shares no more than the range ends inside of it: at the last place where the pieces are there.
      lease_pieces(*lease, seq, pieces_end(seq, std::span<const Ref>(seq.table->refs).first(std::min(end / chunk_tokens, chunks)), nullptr));
    }
  }
  return add_lease(token, lease, lease_ms, error);
}

kvc_status Store::lease_renew(const base::Token &token, uint64_t lease_ms, Error &error) {
  std::lock_guard lock(mutex_);
  void *object;
  if (lease_handles_.enter_shared(&object, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_lease was released before");
  Lease &lease = *static_cast<Lease *>(object);
  lease_handles_.leave_shared(token);  // every call on a lease runs under the lock: it stays
  if (lease_handles_.lapsed(token)) {
    for (size_t i = 0; i < lease.refs.size(); i++)
      if (!index_->held(lease.refs[i])) return fail(error, KVC_ERR_GONE, "the lease lapsed and what it held was evicted");
    for (const Ref ref : lease.refs) index_->pin(ref);
    lease_handles_.clear_lapsed(token.index);
  }
  lease.deadline_ns.store(deadline(lease_ms ? base::ns_of_ms(lease_ms) : lease_ns_), std::memory_order_relaxed);
  lease.tick = next_tick();
  return KVC_OK;
}

kvc_status Store::lease_release(const base::Token &token, Error &error) {
  std::unique_lock lock(mutex_);
  void *object;
  if (lease_handles_.enter_exclusive(&object, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_lease was released before");
  auto *lease = static_cast<Lease *>(object);
  const bool lapsed = lease_handles_.lapsed(token);
  lease_handles_.remove(token);
  if (!lapsed)
    for (const Ref ref : lease->refs) index_->unpin(ref, lease->tick, true);
  lock.unlock();
  destroy_lease(lease);
  queues_.room_freed();
  return KVC_OK;
}

}  // namespace kvc::store
