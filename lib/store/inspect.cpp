#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/rows.h"
#include "seq/flags_of.h"
#include "store/object.h"
#include "store/slices.h"
#include "store/typed.h"

/// What a store tells about itself, and the check of everything it holds.
namespace kvc::store {

using base::fail;

void Store::info(kvc_store_info &info) {
  info.memory_bytes = slab_.capacity_bytes();
  info.seq_count = seq_handles_.live_count();
  info.lease_count = lease_handles_.live_count();
  info.view_count = view_handles_.live_count();
  info.region_count = region_handles_.live_count();
  const LapsesToLog lapses{*this};
  std::lock_guard lock(mutex_);
  reap(clock_.now_ns());
  reads_.settle(*index_);
  info.memory_used = slab_.used_bytes();
  info.chunk_count = index_->chunk_count();
  info.object_count = index_->object_count();
  // A pin holds a node and all above it; what is neither free nor evictable is pinned, open rows included.
  std::pmr::vector<bool> held(index_->node_count_max(), false, &resource_);
  uint64_t evictable = 0;
  for (uint32_t id = 1; id < index_->node_count_max(); id++) {
    const seq::Node *node = index_->live(id);
    for (uint32_t up = id; node && node->pins && up && !held[up]; up = index_->parent(index_->ref_of(up)).id) held[up] = true;
  }
  for (uint32_t id = 1; id < index_->node_count_max(); id++)
    if (const seq::Node *node = index_->live(id); node && !held[id]) evictable += held_bytes(index_->ref_of(id));
  info.memory_pinned = info.memory_used - evictable;
}

/// What a walk over all nodes keeps of one while the lock is free.
struct Store::Pinned {
  Ref ref;
  bool is_object = false;
  Scope *scope = nullptr;
};

kvc_status Store::verify_object(const seq::Node &node, Error &error) {
  const uint8_t *slot = slot_data(node);
  const auto &header = *reinterpret_cast<const ObjectHeader *>(slot);
#ifndef KVC_MUTATE_CHECKSUM
  if (header.sum != header_sum(header)) {  // and nothing else of it is to be trusted
    checksum_failed("an object");
    return fail(error, KVC_ERR_CORRUPT, "an object's header does not match its sum");
  }
#endif
  if (seq::flags_of(node) & seq::node_typed) {
    const kvc_status status = verify_typed(slot, error);
    if (status != KVC_OK) checksum_failed("an object");
    return status;
  }
  const uint64_t bytes = header.value_bytes;
  const auto *sums = reinterpret_cast<const uint64_t *>(slot + object_sums_offset(bytes));
  for (uint64_t i = 0; i < object_piece_count(bytes); i++) {
    const bool match = kernels::table().sum(slot + sizeof(ObjectHeader) + i * object_piece_bytes, std::min(object_piece_bytes, bytes - i * object_piece_bytes)) == sums[i];
#ifndef KVC_MUTATE_CHECKSUM
    if (!match) {
      checksum_failed("an object");
      return fail(error, KVC_ERR_CORRUPT, "an object's piece %llu of 1 MiB does not match its sum", static_cast<unsigned long long>(i));
    }
#else
    (void)match;
#endif
  }
  return KVC_OK;
}

/// One node, pinned by the caller; drops it when it is bad.
void Store::verify_node(const Pinned &node, kvc_verify_info &info) {
  const auto count = [&](uint64_t bytes, auto &&check) {
    Error bad;
    info.pages_read++;
    info.bytes_read += bytes;
    const kvc_status status = check(bad);
    if (status != KVC_OK && info.pages_bad++ == 0) std::strcpy(info.first_bad, bad.message);  // of one size
    return status;
  };
  const seq::Node &held = index_->node(node.ref);
  const uint8_t *slot = slot_data(held);
  if (node.is_object) {
    const uint64_t bytes = reinterpret_cast<const ObjectHeader *>(slot)->value_bytes;
    if (count(bytes, [&](Error &bad) { return verify_object(held, bad); }) == KVC_OK) return;
    std::lock_guard lock(mutex_);
    if (index_->held(node.ref)) drop_object(node.ref);
    return;
  }
  const Piece piece = kind_of(held);
  each_slice(*node.scope, held, [&](const Part &part, uint8_t *slot_of_part) {
    const ChunkLayout &layout = part.layout_of(piece);
    for (uint32_t l = 0; l < layout.layer_count(); l++) {
      const ChunkLayout::Page &page = layout.page(l);
      if (!page.present()) continue;
      (void)count(uint64_t{page.k_bytes} + page.v_bytes, [&](Error &bad) { return verify_page(part, node.ref, slot_of_part, l, bad); });
    }
  });
}

kvc_status Store::verify(kvc_verify_info &info, Error &error) {
  for (uint32_t id = 1;; id++) {
    Pinned pinned;
    {
      std::lock_guard lock(mutex_);
      if (id >= index_->node_count_max()) break;
      const seq::Node *node = index_->live(id);
      if (!node || (node->flags & seq::node_dropped)) continue;
      pinned = {index_->ref_of(id), (node->flags & seq::node_object) != 0, nullptr};
      pinned.scope = scopes_by_id_[index_->owner(pinned.ref).scope];  // stays: it has a chunk or object that is pinned
      index_->pin(pinned.ref);
    }
    verify_node(pinned, info);
    std::lock_guard lock(mutex_);
    index_->unpin_looked_at(pinned.ref);
  }
  if (info.pages_bad) return fail(error, KVC_ERR_CORRUPT, "%llu of %llu pages failed their check and were dropped; first: %.120s", static_cast<unsigned long long>(info.pages_bad), static_cast<unsigned long long>(info.pages_read), info.first_bad);
  return KVC_OK;
}

void Store::metrics(kvc_metrics &out) {
  {
    std::lock_guard lock(mutex_);
    reads_.settle(*index_);
    out.hit_bytes_host = metrics_.hit_bytes_host + reads_.settled_bytes();
  }
  out.match_calls = metrics_.match_calls;
  out.match_tokens = metrics_.match_tokens;
  out.hit_tokens = metrics_.hit_tokens;
  out.gather_bytes = metrics_.gather_bytes;
  out.append_bytes = metrics_.append_bytes;
  out.evicted_chunks = metrics_.evicted_chunks;
  out.checksum_failures = metrics_.checksum_failures;
  out.lapsed_leases = metrics_.lapsed_leases;
  out.timeouts = queues_.timeouts();
}

}  // namespace kvc::store
