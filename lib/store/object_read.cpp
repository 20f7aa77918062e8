#include <algorithm>
#include <array>
#include <cstring>

#include "base/ahead.h"
#include "kernels/rows.h"
#include "seq/flags_of.h"
#include "store/memory.h"
#include "store/object.h"
#include "store/scope_use.h"
#include "store/store.h"
#include "store/typed.h"

/// What looks at objects: get, exists, list.
namespace kvc::store {

using base::fail;

namespace {

/// The bytes of an object, without a look at its slot if the node knows.
uint64_t value_bytes(const seq::Node &node) {
  return node.value_bytes < UINT32_MAX ? node.value_bytes : reinterpret_cast<const ObjectHeader *>(node.payload)->value_bytes;
}

/// What is asked for ahead of a copy: a small value at once, of its destination so little that the look-up, which is under way, does not wait behind
/// it for a core's dozen or so misses at a time.  lib/README.md has the measurement.
constexpr uint64_t kValueAheadBytes = 4096, kDestinationAheadBytes = 512;

[[gnu::always_inline]] inline void ahead_of_write(const kvc_object &object) {
  if (object.part_count) base::ahead_of_write(object.parts[0].data, std::min<uint64_t>(object.parts[0].bytes, kDestinationAheadBytes));
}

/// `next`, unless it is null, is what will be read after this value.
void copy_value(const kvc_object &object, const seq::Node &node, uint64_t bytes, const uint8_t *next) {
  const uint8_t *from = reinterpret_cast<const uint8_t *>(node.payload) + sizeof(ObjectHeader);
  for (uint64_t i = 0; bytes; i++) {
    const uint64_t n = std::min(bytes, object.parts[i].bytes);
    if (n) kernels::table().copy(object.parts[i].data, from, n, !next || n == bytes ? next : from + n);
    from += n;
    bytes -= n;
  }
}

}  // namespace

/// One item of a get, between the two halves: looked up under the lock, copied without it.
struct Store::Wanted {
  seq::Name name;
  uint64_t room;
  uint64_t payload;
  kvc_status checked;
  uint32_t item;  // in the read; UINT32_MAX: nothing was found
  const uint8_t *value() const { return reinterpret_cast<const uint8_t *>(payload) + sizeof(ObjectHeader); }
};

/// One look into far memory an item; what is likely right is held, and checked as it is copied.
Reads::Read &Store::begin_read(std::span<Wanted> wanted, const kvc_object *ahead) {
  std::array<uint64_t, Reads::item_max> hashes;
  for (size_t i = 0; i < wanted.size(); i++)
    if (wanted[i].checked == KVC_OK) index_->prefetch_object(hashes[i] = index_->hash(wanted[i].name));
  if (ahead) ahead_of_write(*ahead);  // while the look-up waits
  std::lock_guard lock(mutex_);
  Reads::Read &read = reads_.begin(*index_);
  for (size_t i = 0; i < wanted.size(); i++) {
    wanted[i].item = UINT32_MAX;
    const seq::Index::Likely likely = wanted[i].checked == KVC_OK ? index_->likely_object(hashes[i]) : seq::Index::Likely{};
    wanted[i].payload = likely.payload;
    if (!likely.id) continue;
    wanted[i].item = read.count;
    read.ids[read.count++] = likely.id;
  }
  read.tick = tick_.fetch_add(read.count, std::memory_order_relaxed) + 1;
  return read;
}

/// The node with the name that is wanted, held by the read; null: there is none.
const seq::Node *Store::right_node(Reads::Read &read, const Wanted &wanted) {
  if (wanted.item == UINT32_MAX) return nullptr;
  const seq::Node &likely = index_->node(read.ids[wanted.item]);
  if (likely.name == wanted.name) return &likely;
  std::lock_guard lock(mutex_);
  const Ref right = index_->find_object(wanted.name);
  if (!right) return nullptr;
  Reads::replace(read, wanted.item, right, *index_);
  return &index_->node(right);
}

kvc_status Store::read_object(kvc_object &object, Reads::Read &read, const Wanted &wanted, const uint8_t *next, Error &error) {
  uint64_t room;
  if (wanted.checked != KVC_OK) return check_object(&room, object, error);
  const seq::Node *node = right_node(read, wanted);
  if (!node) return fail(error, KVC_ERR_NOT_FOUND, "no such key");
  const uint64_t bytes = value_bytes(*node);
  object.value_size = bytes;
  object.tier = KVC_TIER_HOST;
  if (wanted.room < bytes)
    return fail(error, KVC_ERR_RANGE, "the value has %llu bytes, the parts %llu", static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(wanted.room));
  if (verify_reads_ && verify_object(*node, error) != KVC_OK) {
    std::lock_guard lock(mutex_);
    if (const Ref ref = index_->ref_of(read.ids[wanted.item]); index_->held(ref)) drop_object(ref);
    return fail(error, KVC_ERR_GONE, "the value failed its check and was dropped");
  }
  if (seq::flags_of(*node) & seq::node_typed) copy_typed(object, slot_data(*node));
  else copy_value(object, *node, bytes, next);
  read.bytes += bytes;
  return KVC_OK;
}

/// Up to Reads::item_max items.  Nothing behind the copies is a locked instruction: it would wait until all of them have reached memory.
void Store::get_group(Outcome &outcome, ScopeUse &use, std::span<kvc_object> objects, bool leading, bool last) {
  std::array<Wanted, Reads::item_max> all;
  const std::span<Wanted> wanted = std::span(all).first(objects.size());
  uint64_t room = 0;
  for (size_t i = 0; i < objects.size(); i++) {
    Error why;
    wanted[i].checked = check_object(&wanted[i].room, objects[i], why);
    if (wanted[i].checked != KVC_OK) continue;
    object_index_name(wanted[i].name, use.scope(), key_of(objects[i]));
    room += wanted[i].room;
  }
  const bool stream = room >= object_stream_bytes_min;
  const auto written_to = [&](size_t i) { return stream || wanted[i].checked != KVC_OK ? nullptr : &objects[i]; };
  Reads::Read &read = begin_read(wanted, written_to(0));
  const auto ahead_of_copy = [&](const Wanted &w) __attribute__((always_inline)) {
    if (w.item != UINT32_MAX) base::ahead_of_read(w.value(), std::min(w.room, kValueAheadBytes));
  };
  if (wanted[0].item != UINT32_MAX) index_->prefetch_node(read.ids[wanted[0].item]);
  ahead_of_copy(wanted[0]);
  if (last) use.leave();
  for (size_t i = 0; i < objects.size(); i++) {
    const Wanted &soon = wanted[i + 1 < objects.size() ? i + 1 : i];
    if (soon.item != UINT32_MAX) index_->prefetch_node(read.ids[soon.item]);
    if (&soon != &wanted[i] && !stream) {
      if (const kvc_object *to = written_to(i + 1)) ahead_of_write(*to);
      ahead_of_copy(soon);
    }
    objects[i].value_size = 0;
    objects[i].tier = 0;
    Error why;
    const bool stop = leading && outcome.first != KVC_OK;
    outcome.item(objects[i], stop ? outcome.first : read_object(objects[i], read, wanted[i], stream ? soon.value() : nullptr, why), why);
  }
  if (stream) kernels::table().fence();
  outcome.result.bytes += read.bytes;
  Reads::end(read);
}

kvc_status Store::object_get(kvc_result &result, ScopeUse &use, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_object_options(o, KVC_OBJECT_LEADING, error));
  prepare_names(objects);
  const Aging aging(*this, use.scope());
  Outcome outcome{result, error};
  for (size_t at = 0; at < objects.size(); at += Reads::item_max) {
    const auto group = objects.subspan(at, std::min<size_t>(Reads::item_max, objects.size() - at));
    get_group(outcome, use, group, (o.flags & KVC_OBJECT_LEADING) != 0, at + group.size() == objects.size());
  }
  result.bytes_host = result.bytes;
  return outcome.first;
}

kvc_status Store::object_exists(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_object_options(o, KVC_OBJECT_LEADING | KVC_OBJECT_LEASE, error));
  for (const kvc_object &object : objects) KVC_TRY(check_object(nullptr, object, error));
  prepare_names(objects);
  const Aging aging(*this, scope);
  std::pmr::vector<seq::Name> names(objects.size(), &resource_);
  for (size_t i = 0; i < objects.size(); i++) object_index_name(names[i], scope, key_of(objects[i]));
  Lease *lease = (o.flags & KVC_OBJECT_LEASE) ? make<Lease>(&resource_, &resource_) : nullptr;
  try {
    if (lease) lease->refs.reserve(objects.size());
  } catch (...) {
    destroy(&resource_, lease);
    throw;
  }
  Error absent;  // is no error of the call
  Outcome outcome{result, absent};
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < objects.size(); i++) {
      kvc_object &object = objects[i];
      const bool skip = (o.flags & KVC_OBJECT_LEADING) && outcome.first != KVC_OK;
      const Ref ref = skip ? Ref{} : index_->find_object(names[i]);
      object.value_size = 0;
      object.tier = 0;
      if (ref) {
        object.value_size = value_bytes(index_->node(ref));
        object.tier = KVC_TIER_HOST;
        index_->node(ref).tick = next_tick();
        if (lease) {
          index_->pin(ref);
          lease->refs.push_back(ref);
        }
      }
      outcome.item(object, ref ? KVC_OK : KVC_ERR_NOT_FOUND, {});
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

/// Under the lock.
void Store::order_keys(Scope &scope) {
  if (scope.key_order.made()) return;
  KeyOrder::Map map(scope.key_order.resource());
  for (uint32_t id = 1; id < index_->node_count_max(); id++) {
    const seq::Node *node = index_->live(id);
    if (!node || !(node->flags & seq::node_object) || (node->flags & seq::node_dropped)) continue;
    const Ref ref = index_->ref_of(id);
    if (index_->owner(ref).scope == scope.id) map.emplace(object_key(slot_data(*node)), ref);
  }
  scope.key_order.adopt(std::move(map));
}

kvc_status Store::object_list(kvc_object_entry *entries, size_t capacity, size_t *count, Scope &scope, std::string_view after, Error &error) {
  if (capacity == 0) return fail(error, KVC_ERR_ARGUMENT, "entry_capacity 0: nothing to fill");
  if (after.size() > object_key_max) return fail(error, KVC_ERR_ARGUMENT, "key of %zu bytes: at most %llu are allowed", after.size(), static_cast<unsigned long long>(object_key_max));
  const Aging aging(*this, scope);
  std::lock_guard lock(mutex_);
  order_keys(scope);
  const KeyOrder::Map &keys = scope.key_order.map();
  size_t n = 0;
  for (auto it = keys.upper_bound(after); it != keys.end() && n < capacity; ++it, n++) {
    entries[n] = {};
    std::memcpy(entries[n].key, it->first.data(), it->first.size());
    entries[n].key_size = static_cast<uint32_t>(it->first.size());
    entries[n].tier = KVC_TIER_HOST;
    entries[n].value_size = value_bytes(index_->node(it->second));
  }
  *count = n;
  return KVC_OK;
}

}  // namespace kvc::store
