#include "store/object.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fault.h"
#include "kernels/rows.h"
#include "store/memory.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;

namespace {

std::string_view key_of(const kvc_object &object) { return {static_cast<const char *>(object.key), object.key_size}; }

/// Checks one item and adds up its parts.
kvc_status check_object(const kvc_object &object, bool has_parts, uint64_t *bytes, Error &error) {
  if (!object.key || object.key_size == 0 || object.key_size > object_key_max)
    return fail(error, KVC_ERR_ARGUMENT, "key of %llu bytes%s: 1 to %llu are allowed", static_cast<unsigned long long>(object.key_size), object.key ? "" : " at NULL", static_cast<unsigned long long>(object_key_max));
  *bytes = 0;
  if (!has_parts) return KVC_OK;
  if (object.memory != KVC_MEMORY_HOST) return fail(error, object.memory > KVC_MEMORY_CUDA_MANAGED ? KVC_ERR_ARGUMENT : KVC_ERR_UNSUPPORTED, "memory %u: this store has no device tier", object.memory);
  if (!object.parts && object.part_count) return fail(error, KVC_ERR_ARGUMENT, "parts is NULL but part_count is %llu", static_cast<unsigned long long>(object.part_count));
  for (uint64_t i = 0; i < object.part_count; i++) {
    const kvc_bytes &part = object.parts[i];
    if (!part.data && part.bytes) return fail(error, KVC_ERR_ARGUMENT, "parts[%llu]: %llu bytes at NULL", static_cast<unsigned long long>(i), static_cast<unsigned long long>(part.bytes));
    if (part.bytes > (1ull << 56) - *bytes) return fail(error, KVC_ERR_ARGUMENT, "parts[%llu]: %llu bytes more overflow the value", static_cast<unsigned long long>(i), static_cast<unsigned long long>(part.bytes));
    *bytes += part.bytes;
  }
  return KVC_OK;
}

kvc_status check_options(const kvc_object_options &o, uint32_t allowed, Error &error) {
  constexpr uint32_t known = KVC_OBJECT_GROUP | KVC_OBJECT_LEADING | KVC_OBJECT_LEASE;
  if (o.flags & ~known) return fail(error, KVC_ERR_TOO_NEW, "object flags 0x%x: unknown bits", o.flags & ~known);
  if (o.flags & ~allowed) return fail(error, KVC_ERR_ARGUMENT, "object flags 0x%x: not for this call", o.flags & ~allowed);
  if (o.ttl_ms) return fail(error, KVC_ERR_UNSUPPORTED, "ttl_ms: not built yet");
  if (o.layout) return fail(error, KVC_ERR_UNSUPPORTED, "layout: typed objects are not built yet");
  return KVC_OK;
}

/// Copies the parts to `value` and sums it by pieces.  A part that brings a whole piece is summed on its way in.
void fill_object(uint8_t *value, uint64_t *sums, const kvc_object &object, uint64_t bytes) {
  const kernels::Table &kernel = kernels::table();
  const bool stream = bytes >= object_stream_bytes_min;
  uint64_t at = 0, summed = 0;
  for (uint64_t i = 0; i < object.part_count; i++) {
    const auto *from = static_cast<const uint8_t *>(object.parts[i].data);
    for (uint64_t left = object.parts[i].bytes; left;) {
      const uint64_t piece = at / object_piece_bytes, end = std::min((piece + 1) * object_piece_bytes, bytes);
      const uint64_t n = std::min(left, end - at);
      constexpr uint32_t row = 256;  // the kernel's unit: plain bytes as rows of one head
      if (at == piece * object_piece_bytes && at + n == end && n % row == 0) {
        const kernels::RowsSide rows{const_cast<uint8_t *>(from), kernels::Dtype::u8, row, row, row, row, nullptr, 0, 0, 0};
        sums[piece] = kernel.rows_in_sum({value + at, kernels::Dtype::u8, row, static_cast<uint32_t>(n / row)}, rows, 1, stream);
        summed = piece + 1;
      } else {
        kernel.copy(value + at, from, n, false);
        if (at + n == end) sums[piece] = kernel.sum(value + piece * object_piece_bytes, end - piece * object_piece_bytes), summed = piece + 1;
      }
      at += n;
      from += n;
      left -= n;
    }
  }
  KVC_CHECK(summed == object_piece_count(bytes));
}

/// The bytes of an object, without a look at its slot if the node knows.
uint64_t value_bytes(const seq::Node &node, const uint8_t *slot) {
  return node.value_bytes < UINT32_MAX ? node.value_bytes : reinterpret_cast<const ObjectHeader *>(slot)->value_bytes;
}

/// The call's status is that of its first item that is not OK.
struct Outcome {
  kvc_result &result;
  kvc_status first = KVC_OK;
  void item(kvc_object &object, kvc_status status) {
    object.status = status;
    if (first == KVC_OK && status == KVC_OK) result.done++;
    if (first == KVC_OK) first = status;
  }
};

}  // namespace

/// A value copied into a slot that nobody can see yet.
struct Store::Prepared {
  memory::SlotId slot;
  uint64_t bytes = 0;
};

/// Short keys are their own name in this process's index, so that finding them costs no hash of 64-byte blocks; long ones go by digest.
seq::Name Store::object_index_name(const Scope &scope, std::string_view key) {
  seq::Name name{};
  if (key.size() > name.size() - 5) {
    thread_local base::Sha256 hash;
    return seq::object_name(hash, scope.name, key);
  }
  std::memcpy(name.data(), &scope.id, sizeof scope.id);
  name[4] = static_cast<uint8_t>(key.size());
  std::memcpy(name.data() + 5, key.data(), key.size());
  return name;
}

Ref Store::find_object(const Scope &scope, std::string_view key) { return index_->find(object_index_name(scope, key)); }

kvc_status Store::prepare_object(Prepared &out, const kvc_object &object, Error &error) {
  KVC_TRY(check_object(object, true, &out.bytes, error));
  KVC_TRY(take_slot(&out.slot, object_slot_bytes(out.bytes), error));
  uint8_t *slot = slab_.data(out.slot);
  auto *header = reinterpret_cast<ObjectHeader *>(slot);
  *header = {out.bytes, static_cast<uint32_t>(object.key_size), 0, {}, {}};
  std::memcpy(header->key, object.key, object.key_size);
  fill_object(slot + sizeof(ObjectHeader), reinterpret_cast<uint64_t *>(slot + object_sums_offset(out.bytes)), object, out.bytes);
  return KVC_OK;
}

/// Under the lock; KVC_ERR_BUSY when the key is there already, and the slot is still the caller's.
kvc_status Store::insert_object(Prepared &prepared, const kvc_object &object, Scope &scope, Error &error) {
  seq::Node node{};
  node.name = object_index_name(scope, key_of(object));
  if (index_->find(node.name)) return KVC_ERR_BUSY;
  node.payload = reinterpret_cast<uint64_t>(slab_.data(prepared.slot));
  node.flags = seq::node_object;
  node.value_bytes = static_cast<uint32_t>(std::min<uint64_t>(prepared.bytes, UINT32_MAX));
  node.tick = next_tick();
  decltype(scope.objects)::iterator listed;
  try {
    index_->reserve(1);
    try {
      listed = scope.objects.emplace(key_of(object), Ref{}).first;
    } catch (...) {
      index_->unreserve(1);
      throw;
    }
  } catch (const std::bad_alloc &) {
    return fail(error, KVC_ERR_NO_MEMORY, "put: the system refused memory for the index");
  }
  const Ref ref = index_->insert(node, {}, owner_of(prepared.slot, scope));
  listed->second = ref;
  scope.settle(clock_.now_ns());
  scope.bytes_host += slab_.bytes(prepared.slot);
  scope.object_count++;
  prepared.slot = {};
  index_->unpin(ref, node.tick, false);
  return KVC_OK;
}

kvc_status Store::compare_object(Ref pinned, const kvc_object &object, Error &error) {
  const uint8_t *slot = slot_data(index_->node(pinned));
  const auto *header = reinterpret_cast<const ObjectHeader *>(slot);
  uint64_t bytes;
  KVC_TRY(check_object(object, true, &bytes, error));
  bool equal = bytes == header->value_bytes;
  const uint8_t *at = slot + sizeof(ObjectHeader);
  for (uint64_t i = 0; equal && i < object.part_count; at += object.parts[i].bytes, i++)
    equal = object.parts[i].bytes == 0 || std::memcmp(at, object.parts[i].data, object.parts[i].bytes) == 0;
  if (equal) return KVC_OK;
  return fail(error, KVC_ERR_EXISTS, "the key holds %llu other bytes: delete it first", static_cast<unsigned long long>(header->value_bytes));
}

kvc_status Store::put_object(kvc_object &object, Scope &scope, Error &error) {
  uint64_t bytes;
  KVC_TRY(check_object(object, true, &bytes, error));
  Prepared prepared;
  for (;;) {
    Ref there;
    {
      std::lock_guard lock(mutex_);
      if ((there = find_object(scope, key_of(object)))) index_->pin(there);
    }
    if (there) {
      const kvc_status status = compare_object(there, object, error);
      std::lock_guard lock(mutex_);
      index_->unpin(there, next_tick(), false);
      if (prepared.slot.generation) slab_.give(prepared.slot);
      return status;
    }
    if (!prepared.slot.generation) KVC_TRY(prepare_object(prepared, object, error));
    std::lock_guard lock(mutex_);
    const kvc_status status = insert_object(prepared, object, scope, error);
    if (status == KVC_ERR_BUSY) continue;  // somebody was first: compare with theirs
    if (status != KVC_OK) slab_.give(prepared.slot);
    return status;
  }
}

/// All items become visible in one hold of the lock, or none.
kvc_status Store::put_group(kvc_result &result, Scope &scope, std::span<kvc_object> objects, Error &error) {
  std::pmr::vector<Prepared> prepared(objects.size(), &resource_);
  std::pmr::vector<Ref> inserted(&resource_);
  inserted.reserve(objects.size());
  kvc_status status = KVC_OK;
  size_t bad = 0;
  for (size_t i = 0; i < objects.size() && status == KVC_OK; i++)
    if ((status = prepare_object(prepared[i], objects[i], error)) != KVC_OK) bad = i;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < objects.size() && status == KVC_OK; i++) {
    status = insert_object(prepared[i], objects[i], scope, error);
    const Ref ref = find_object(scope, key_of(objects[i]));
    if (status == KVC_OK) inserted.push_back(ref);
    else if (status == KVC_ERR_BUSY) status = compare_object(ref, objects[i], error);
    if (status != KVC_OK) bad = i;
  }
  for (const Prepared &p : prepared)
    if (p.slot.generation) slab_.give(p.slot);
  if (status == KVC_OK) {
    for (kvc_object &object : objects) object.status = KVC_OK;
    result.done = objects.size();
    return KVC_OK;
  }
  for (const Ref ref : inserted) drop_object(scope, ref);
  for (kvc_object &object : objects) object.status = KVC_ERR_CANCELLED;
  objects[bad].status = status;
  return status;
}

/// Out of the index and the list at once.  Under the lock.
void Store::drop_object(Scope &scope, Ref ref) {
  scope.objects.erase(scope.objects.find(object_key(slot_data(index_->node(ref)))));
  index_->drop(ref);
}

kvc_status Store::object_put(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_options(o, KVC_OBJECT_GROUP, error));
  if (o.flags & KVC_OBJECT_GROUP) return put_group(result, scope, objects, error);
  Outcome outcome{result};
  for (kvc_object &object : objects) {
    Error item;
    Error &sink = outcome.first == KVC_OK ? error : item;
    outcome.item(object, put_object(object, scope, sink));
  }
  return outcome.first;
}

kvc_status Store::get_object(kvc_object &object, Scope &scope, kvc_result &result, Error &error) {
  uint64_t room;
  object.value_size = 0;
  object.tier = 0;
  KVC_TRY(check_object(object, true, &room, error));
  Ref ref;
  {
    std::lock_guard lock(mutex_);
    ref = find_object(scope, key_of(object));
    if (!ref) return fail(error, KVC_ERR_NOT_FOUND, "no such key");
    index_->pin(ref);
  }
  const seq::Node &node = index_->node(ref);
  const uint8_t *slot = slot_data(node);
  const uint64_t bytes = value_bytes(node, slot);
  object.value_size = bytes;
  object.tier = KVC_TIER_HOST;
  kvc_status status = KVC_OK;
  if (room < bytes) status = fail(error, KVC_ERR_RANGE, "the value has %llu bytes, the parts %llu", static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(room));
  else if (verify_reads_) status = verify_object(node, error);
  const uint8_t *at = slot + sizeof(ObjectHeader);
  uint64_t left = status == KVC_OK ? bytes : 0;
  for (uint64_t i = 0; left; i++) {
    const uint64_t n = std::min(left, object.parts[i].bytes);
    if (n) kernels::table().copy(object.parts[i].data, at, n, bytes >= object_stream_bytes_min);
    at += n;
    left -= n;
  }
  if (status == KVC_OK) result.bytes += bytes;
  std::lock_guard lock(mutex_);
  if (status == KVC_ERR_CORRUPT) {
    drop_object(scope, ref);
    status = fail(error, KVC_ERR_GONE, "the value failed its check and was dropped");
  }
  index_->unpin(ref, next_tick(), false);
  return status;
}

kvc_status Store::object_get(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_options(o, KVC_OBJECT_LEADING, error));
  Outcome outcome{result};
  for (kvc_object &object : objects) {
    Error item;
    Error &sink = outcome.first == KVC_OK ? error : item;
    if ((o.flags & KVC_OBJECT_LEADING) && outcome.first != KVC_OK) object.status = KVC_ERR_NOT_FOUND, object.value_size = 0, object.tier = 0;
    else outcome.item(object, get_object(object, scope, result, sink));
  }
  result.bytes_host = result.bytes;
  metrics_.hit_bytes_host.fetch_add(result.bytes, std::memory_order_relaxed);
  return outcome.first;
}

kvc_status Store::object_exists(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_options(o, KVC_OBJECT_LEADING | KVC_OBJECT_LEASE, error));
  for (const kvc_object &object : objects) {
    uint64_t none;
    KVC_TRY(check_object(object, false, &none, error));
  }
  Lease *lease = (o.flags & KVC_OBJECT_LEASE) ? make<Lease>(&resource_, &resource_) : nullptr;
  try {
    if (lease) lease->refs.reserve(objects.size());
  } catch (...) {
    destroy(&resource_, lease);
    throw;
  }
  Outcome outcome{result};
  {
    std::lock_guard lock(mutex_);
    for (kvc_object &object : objects) {
      const bool skip = (o.flags & KVC_OBJECT_LEADING) && outcome.first != KVC_OK;
      const Ref ref = skip ? Ref{} : find_object(scope, key_of(object));
      object.value_size = 0;
      object.tier = 0;
      if (ref) {
        object.value_size = value_bytes(index_->node(ref), slot_data(index_->node(ref)));
        object.tier = KVC_TIER_HOST;
        index_->node(ref).tick = next_tick();
        if (lease) {
          index_->pin(ref);
          lease->refs.push_back(ref);
        }
      }
      outcome.item(object, ref ? KVC_OK : KVC_ERR_NOT_FOUND);
    }
  }
  if (!lease || lease->refs.empty()) {
    destroy(&resource_, lease);
    return KVC_OK;
  }
  lease->tick = next_tick();
  uint64_t token;
  KVC_TRY(add_lease(&token, lease, o.lease_ms, error));
  result.lease = reinterpret_cast<kvc_lease *>(token);
  return KVC_OK;
}

kvc_status Store::object_delete(kvc_result &result, Scope &scope, std::span<kvc_object> objects, Error &error) {
  for (const kvc_object &object : objects) {
    uint64_t none;
    KVC_TRY(check_object(object, false, &none, error));
  }
  Outcome outcome{result};
  std::lock_guard lock(mutex_);
  for (kvc_object &object : objects) {
    const Ref ref = find_object(scope, key_of(object));
    if (ref) drop_object(scope, ref);
    const bool was_ok = outcome.first == KVC_OK;
    outcome.item(object, ref ? KVC_OK : KVC_ERR_NOT_FOUND);
    if (was_ok && !ref) (void)fail(error, KVC_ERR_NOT_FOUND, "no such key");
  }
  return outcome.first;
}

kvc_status Store::object_list(kvc_object_entry *entries, size_t capacity, size_t *count, Scope &scope, std::string_view after, Error &error) {
  if (capacity == 0) return fail(error, KVC_ERR_ARGUMENT, "entry_capacity 0: nothing to fill");
  if (after.size() > object_key_max) return fail(error, KVC_ERR_ARGUMENT, "key of %zu bytes: at most %llu are allowed", after.size(), static_cast<unsigned long long>(object_key_max));
  std::lock_guard lock(mutex_);
  size_t n = 0;
  for (auto it = scope.objects.upper_bound(after); it != scope.objects.end() && n < capacity; ++it, n++) {
    entries[n] = {};
    std::memcpy(entries[n].key, it->first.data(), it->first.size());
    entries[n].key_size = static_cast<uint32_t>(it->first.size());
    entries[n].tier = KVC_TIER_HOST;
    entries[n].value_size = value_bytes(index_->node(it->second), slot_data(index_->node(it->second)));
  }
  *count = n;
  return KVC_OK;
}

}  // namespace kvc::store
