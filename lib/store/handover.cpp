#include "store/handover.h"

#include <algorithm>

#include "store/memory.h"
#include "store/store.h"

/// Sequences handed over by name.
namespace kvc::store {

using base::fail;

namespace {

kvc_status fail_not_found(std::string_view name, Error &error) {
  char text[HandoverName::bytes_max + 1] = {};
  std::transform(name.begin(), name.end(), text, [](char c) { return c >= ' ' && c <= '~' ? c : '?'; });
  return fail(error, KVC_ERR_NOT_FOUND, "no sequence is published in this scope as \"%s\"", text);
}

}  // namespace

kvc_status check_handover_name(std::string_view name, Error &error) {
  if (!name.empty() && name.size() <= HandoverName::bytes_max) return KVC_OK;
  return fail(error, KVC_ERR_ARGUMENT, "name_size %zu: a name has 1..%zu bytes", name.size(), HandoverName::bytes_max);
}

/// Under the lock.
void Store::handover_unref(Handover *handover) {
  if (--handover->users) return;
  Scope *const scope = handover->snapshot->scope;
  drop_sequence(handover->snapshot);
  destroy(&resource_, handover);
  scope->users--;
  forget_scope(scope);
}

/// Ends what lapsed; true if that was any.  Under the lock.
bool Store::reap_handovers(uint64_t now_ns, uint64_t *next_ns) {
  bool ended = false;
  for (auto it = handovers_.begin(); it != handovers_.end();) {
    if (it->second->deadline_ns > now_ns) {
      *next_ns = std::min(*next_ns, it->second->deadline_ns);
      ++it;
      continue;
    }
    Handover *const lapsed = it->second;
    it = handovers_.erase(it);
    handover_unref(lapsed);
    metrics_.lapsed_leases.fetch_add(1, std::memory_order_relaxed);
    ended = true;
  }
  return ended;
}

kvc_status Store::publish(const Sequence &seq, std::string_view name, uint64_t lease_ms, Error &error) {
  KVC_TRY(check_left(seq, seq.length, error));
  SequencePtr snapshot = copy_of(seq);
  use(*snapshot);
  Handover *made = nullptr, *before = nullptr;
  const LapsesToLog lapses{*this};
  std::unique_lock lock(mutex_);
  bool full = false;
  try {
    reap(clock_.now_ns());
    const HandoverName key(*seq.scope, name);
    const auto found = handovers_.find(key);
    full = found == handovers_.end() && handovers_.size() >= seq_max_;
    if (!full) {
      made = make<Handover>(&resource_, snapshot.get(), deadline(lease_ms ? base::ns_of_ms(lease_ms) : lease_ns_));
      if (found != handovers_.end()) before = std::exchange(found->second, made);
      else handovers_.emplace(key, made);
    }
  } catch (const std::bad_alloc &) {
    destroy(&resource_, made);
    let_go(*snapshot);
    return fail(error, KVC_ERR_NO_MEMORY, "publish: the system refused memory");
  }
  if (full) {
    let_go(*snapshot);
    return fail(error, KVC_ERR_FULL, "%zu names are published: withdraw some or raise seq_max", handovers_.size());
  }
  (void)snapshot.release();
  seq.scope->users++;
  if (before) handover_unref(before);
  next_lapse_ns_ = std::min(next_lapse_ns_, made->deadline_ns);
  queues_.room_freed();
  return KVC_OK;
}

kvc_status Store::attach(uint64_t *token, uint64_t *length, Scope &scope, std::string_view name, const kvc_seq_options &o, Error &error) {
  Handover *handover;
  {
    std::lock_guard lock(mutex_);
    const auto found = handovers_.find(HandoverName(scope, name));
    if (found == handovers_.end() || found->second->deadline_ns <= clock_.now_ns()) return fail_not_found(name, error);
    handover = found->second;
    handover->users++;
  }
  SequencePtr seq(nullptr, SequenceDelete{&resource_});
  kvc_status status = KVC_OK;
  try {
    const Part *part;
    status = find_part(&part, scope, o, error);
    if (status == KVC_OK && (o.layer_count || o.head_count) && part != handover->snapshot->part) status = fail(error, KVC_ERR_SHAPE, "the options name another part of the shape than the sequence was published with");
    if (status == KVC_OK) seq = copy_of(*handover->snapshot);
  } catch (const std::bad_alloc &) {
    status = fail(error, KVC_ERR_NO_MEMORY, "attach: the system refused memory");
  }
  {
    std::lock_guard lock(mutex_);
    handover_unref(handover);
  }
  KVC_TRY(status);
  if (o.lease_ms) seq->lease_ns = base::ns_of_ms(o.lease_ms);
  if (std::any_of(std::begin(o.write_id), std::end(o.write_id), [](uint8_t b) { return b != 0; })) {
    std::copy(std::begin(o.write_id), std::end(o.write_id), seq->write_id);
    seq->write_id_given = true;
  }
  if (o.flags & KVC_SEQ_PRIVATE) {
    seq->is_private = true;
    seq->names.clear();
  }
  *length = seq->length;
  return add_sequence(token, std::move(seq), error);
}

kvc_status Store::withdraw(const Scope &scope, std::string_view name, Error &error) {
  std::lock_guard lock(mutex_);
  const auto found = handovers_.find(HandoverName(scope, name));
  if (found == handovers_.end()) return fail_not_found(name, error);
  Handover *const handover = found->second;
  const bool lapsed = handover->deadline_ns <= clock_.now_ns();
  handovers_.erase(found);
  handover_unref(handover);
  queues_.room_freed();
  return lapsed ? fail_not_found(name, error) : KVC_OK;
}

}  // namespace kvc::store
