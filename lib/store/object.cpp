#include "store/object.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/ahead.h"
#include "base/check.h"
#include "base/fault.h"
#include "kernels/rows.h"
#include "seq/flags_of.h"
#include "store/memory.h"
#include "store/store.h"
#include "store/typed.h"

namespace kvc::store {

using base::fail;

namespace {

/// Values from here on pass the cache by on their way in: who puts them reads them no more.
constexpr uint64_t kStreamBytesMin = 4096;
/// As of a get's destination.
constexpr uint64_t kSourceAheadBytes = 512;

/// Copies the parts to `value` and sums it by pieces.  A part that brings a whole piece is summed on its way in.  `next` is what will be read after.
void fill_object(uint8_t *value, uint64_t *sums, const kvc_object &object, uint64_t bytes, const void *next) {
  const kernels::Table &kernel = kernels::table();
  uint64_t at = 0, summed = 0;
  for (uint64_t i = 0; i < object.part_count; i++) {
    const auto *from = static_cast<const uint8_t *>(object.parts[i].data);
    for (uint64_t left = object.parts[i].bytes; left;) {
      const uint64_t piece = at / object_piece_bytes, end = std::min((piece + 1) * object_piece_bytes, bytes);
      const uint64_t n = std::min(left, end - at);
      if (at == piece * object_piece_bytes && at + n == end) {
        sums[piece] = kernel.copy_sum(value + at, from, n, bytes < kStreamBytesMin ? nullptr : left > n || !next ? from + n : next);
        summed = piece + 1;
      } else {
        kernel.copy(value + at, from, n, nullptr);
        if (at + n == end) sums[piece] = kernel.sum(value + piece * object_piece_bytes, end - piece * object_piece_bytes), summed = piece + 1;
      }
      at += n;
      from += n;
      left -= n;
    }
  }
  KVC_CHECK(summed == object_piece_count(bytes));
}

/// The first eight bytes, or what there is of them with zeros behind.
uint64_t word_of(std::string_view bytes) {
  const auto load = [&](auto part, size_t at) {
    std::memcpy(&part, bytes.data() + at, sizeof part);
    return static_cast<uint64_t>(part);
  };
  const size_t n = bytes.size();
  if (n >= 8) return load(uint64_t{}, 0);
  if (n >= 4) return load(uint32_t{}, 0) | load(uint32_t{}, n - 4) << 8 * (n - 4);
  return load(uint8_t{}, 0) | load(uint8_t{}, n / 2) << 8 * (n / 2) | load(uint8_t{}, n - 1) << 8 * (n - 1);
}

/// As text where it is text.
void write_key(char (&out)[3 + 2 * object_key_max], std::string_view key) {
  const bool text = std::all_of(key.begin(), key.end(), [](char c) { return c > 32 && c < 127; });
  char *to = out;
  for (const char c : std::string_view(text ? "\"" : "0x")) *to++ = c;
  for (const char c : key) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (text) {
      *to++ = c;
    } else {
      *to++ = digits[byte >> 4];
      *to++ = digits[byte & 15];
    }
  }
  if (text) *to++ = '"';
  *to = 0;
}

}  // namespace

kvc_status check_object(uint64_t *part_bytes, const kvc_object &object, Error &error) {
  if (!object.key || object.key_size == 0 || object.key_size > object_key_max)
    return fail(error, KVC_ERR_ARGUMENT, "key of %llu bytes%s: 1 to %llu are allowed", static_cast<unsigned long long>(object.key_size), object.key ? "" : " at NULL", static_cast<unsigned long long>(object_key_max));
  if (!part_bytes) return KVC_OK;
  *part_bytes = 0;
  if (object.memory != KVC_MEMORY_HOST) return fail(error, object.memory > KVC_MEMORY_CUDA_MANAGED ? KVC_ERR_ARGUMENT : KVC_ERR_UNSUPPORTED, "memory %u: this store has no device tier", object.memory);
  if (!object.parts && object.part_count) return fail(error, KVC_ERR_ARGUMENT, "parts is NULL but part_count is %llu", static_cast<unsigned long long>(object.part_count));
  for (uint64_t i = 0; i < object.part_count; i++) {
    const kvc_bytes &part = object.parts[i];
    if (!part.data && part.bytes) return fail(error, KVC_ERR_ARGUMENT, "parts[%llu]: %llu bytes at NULL", static_cast<unsigned long long>(i), static_cast<unsigned long long>(part.bytes));
    if (part.bytes > (1ull << 56) - *part_bytes) return fail(error, KVC_ERR_ARGUMENT, "parts[%llu]: %llu bytes more overflow the value", static_cast<unsigned long long>(i), static_cast<unsigned long long>(part.bytes));
    *part_bytes += part.bytes;
  }
  return KVC_OK;
}

kvc_status check_object_options(const kvc_object_options &o, uint32_t allowed, Error &error) {
  constexpr uint32_t known = KVC_OBJECT_GROUP | KVC_OBJECT_LEADING | KVC_OBJECT_LEASE;
  if (o.flags & ~known) return fail(error, KVC_ERR_TOO_NEW, "object flags 0x%x: unknown bits", o.flags & ~known);
  if (o.flags & ~allowed) return fail(error, KVC_ERR_ARGUMENT, "object flags 0x%x: not for this call", o.flags & ~allowed);
  if (o.layout && !(allowed & KVC_OBJECT_GROUP)) return fail(error, KVC_ERR_ARGUMENT, "layout: only a put takes one, an object is read back in its own");
  return KVC_OK;
}

void Outcome::item(kvc_object &object, kvc_status status, const Error &why) {
  object.status = status;
  const uint64_t number = item_count++;
  if (first != KVC_OK) return;
  if (status == KVC_OK) {
    result.done++;
    return;
  }
  first = status;
  char key[3 + 2 * object_key_max];
  write_key(key, object.key ? key_of(object).substr(0, object_key_max) : "");
  (void)fail(error, status, "objects[%llu], key %s: %s", static_cast<unsigned long long>(number), key, why.message);
  error.system_error = why.system_error;
  error.never = why.never;
}

/// A value copied into a slot that nobody can see yet.
struct Store::Prepared {
  seq::Name name;
  memory::SlotId slot;
  uint64_t bytes, ttl_ms;
  uint64_t counted;  // against the quota
  Ref there;  // who has the name already, pinned
  kvc_status status;
};

namespace {
uint32_t typed_flag(const TypedPut *typed) { return typed ? static_cast<uint32_t>(seq::node_typed) : 0; }
kvc_status check_put(uint64_t &bytes, const kvc_object &object, const TypedPut *typed, Error &error) {
  KVC_TRY(check_object(&bytes, object, error));
  return typed ? check_covered(typed->record, bytes, error) : KVC_OK;
}
bool is_short(std::string_view key) { return key.size() <= sizeof(seq::Name) - sizeof(uint64_t); }
base::Sha256 &thread_hash() {
  thread_local base::Sha256 hash;
  return hash;
}
}  // namespace

/// What naming may throw, it throws here, before the first item is acted on.
void Store::prepare_names(std::span<const kvc_object> objects) {
  for (const kvc_object &object : objects)
    if (!is_short(key_of(object))) return (void)thread_hash();
}

/// The same for a layout, whose frames bear an object's whole name and a write id.
kvc_status Store::prepare_layout(TypedPut &out, const kvc_rows &layout, const Scope &scope, Error &error) {
  KVC_TRY(resolve_layout(out.record, layout, scope, &resource_, error));
  out.scope = &scope;
  draw_write_id(out.write_id.data());
  (void)thread_hash();
  return KVC_OK;
}

/// Short keys are their own name in this process's index, so that finding them costs no hash of 64-byte blocks; long ones go by digest.  Written
/// and read again in whole words: a load that spans recent stores would wait for all before them.
void Store::object_index_name(seq::Name &out, const Scope &scope, std::string_view key) {
  if (!is_short(key)) {
    out = seq::object_name(thread_hash(), scope.name, key);
    return;
  }
  uint8_t *word = out.data();
  const auto put = [&](uint64_t value) {
    std::memcpy(word, &value, sizeof value);
    word += sizeof value;
  };
  put(static_cast<uint64_t>(key.size()) << 32 | scope.id);
  for (size_t at = 0; at < out.size() - sizeof(uint64_t); at += sizeof(uint64_t)) put(at < key.size() ? word_of(key.substr(at)) : 0);
}

/// Name and bytes are known, the item is checked.
kvc_status Store::prepare_object(Prepared &out, const kvc_object &object, const TypedPut *typed, Scope &scope, const void *next, Error &error) {
  QuotaHold quota;
  KVC_TRY(take_slot(&out.slot, &quota, typed ? typed_slot_bytes(typed->record) : object_slot_bytes(out.bytes), scope, error));
  out.counted = quota.release();
  uint8_t *slot = slab_.data(out.slot);
  auto *header = reinterpret_cast<ObjectHeader *>(slot);
  *header = {out.bytes, static_cast<uint32_t>(object.key_size), 0, {}, out.ttl_ms, {}};
  std::memcpy(header->key, object.key, object.key_size);
  header->sum = header_sum(*header);
  if (typed) fill_typed(slot, *typed, seq::object_name(thread_hash(), typed->scope->name, key_of(object)), object);
  else fill_object(slot + sizeof(ObjectHeader), reinterpret_cast<uint64_t *>(slot + object_sums_offset(out.bytes)), object, out.bytes, next);
  return KVC_OK;
}

void Store::give_slot(Prepared &item, Scope &scope) {
  if (!item.slot.generation) return;
  slab_.give(std::exchange(item.slot, {}));
  if (item.counted) scope.bytes_counted.fetch_sub(std::exchange(item.counted, 0), std::memory_order_relaxed);
}

/// Under the lock; KVC_ERR_BUSY when the key is there already, as `ref`, and the slot is still the caller's.
kvc_status Store::insert_object(Ref *ref, Prepared &prepared, const kvc_object &object, Scope &scope, uint32_t node_flags, Error &error) {
  if ((*ref = index_->find_object(prepared.name))) return KVC_ERR_BUSY;
  seq::Node node{};
  node.name = prepared.name;
  node.payload = reinterpret_cast<uint64_t>(slab_.data(prepared.slot));
  node.flags = seq::node_object | node_flags | (prepared.ttl_ms ? static_cast<uint32_t>(seq::node_own_ttl) : 0u);
  node.value_bytes = static_cast<uint32_t>(std::min<uint64_t>(prepared.bytes, UINT32_MAX));
  node.tick = next_tick();
  KeyOrder::Place place;
  try {
    index_->reserve(1, scope.id);
    try {
      if (prepared.ttl_ms) expiry_.reserve(*index_);
      place = scope.key_order.make(key_of(object));
    } catch (...) {
      index_->unreserve(1);
      throw;
    }
  } catch (const std::bad_alloc &) {
    return fail(error, KVC_ERR_NO_MEMORY, "put: the system refused memory for the index");
  }
  *ref = index_->insert(node, {}, owner_of(prepared.slot, scope));
  scope.key_order.set(place, *ref);
  if (prepared.ttl_ms) add_own_ttl(*ref, prepared.ttl_ms, scope);
  scope.settle(clock_.now_ns());
  scope.bytes_host += slab_.bytes(prepared.slot);
  scope.object_count++;
  prepared.slot = {};
  if (prepared.counted) scope.bytes_counted.fetch_sub(std::exchange(prepared.counted, 0), std::memory_order_relaxed);
  index_->unpin(*ref, node.tick, false);
  return KVC_OK;
}

kvc_status Store::compare_object(Ref pinned, const kvc_object &object, uint64_t bytes, Error &error) {
  const uint8_t *slot = slot_data(index_->node(pinned));
  const auto *header = reinterpret_cast<const ObjectHeader *>(slot);
  bool equal = bytes == header->value_bytes;
  const bool typed = (seq::flags_of(index_->node(pinned)) & seq::node_typed) != 0;
  if (equal && typed) equal = equal_typed(slot, object);
  const uint8_t *at = slot + sizeof(ObjectHeader);
  for (uint64_t i = 0; equal && !typed && i < object.part_count; at += object.parts[i].bytes, i++)
    equal = object.parts[i].bytes == 0 || std::memcmp(at, object.parts[i].data, object.parts[i].bytes) == 0;
  if (equal) return KVC_OK;
  return fail(error, KVC_ERR_EXISTS, "the key holds %llu other bytes: delete it first", static_cast<unsigned long long>(header->value_bytes));
}

/// Some items of a batch, each acting alone, on their way through a put.
struct Store::Puts {
  static constexpr size_t item_max = 16;
  std::span<kvc_object> objects;
  const TypedPut *typed;
  uint64_t ttl_ms = 0;
  std::array<Prepared, item_max> items;
  size_t bad = SIZE_MAX;  // the first that failed, and why
  Error why;

  void settle(size_t i, kvc_status status, const Error &error) {
    items[i].status = status;
    if (status != KVC_OK && i < bad) bad = i, why = error;
  }
  /// What a put of this item will read first; null: nothing.
  const void *source(size_t i) const { return i < objects.size() && items[i].status == KVC_OK && objects[i].part_count ? objects[i].parts[0].data : nullptr; }
  [[gnu::always_inline]] void ahead_of(size_t i) const {
    if (const void *data = source(i)) base::ahead_of_read(data, std::min<uint64_t>(objects[i].parts[0].bytes, kSourceAheadBytes));
  }
};

/// Names the items and pins those that are there.
void Store::look_up(Puts &puts, const Scope &scope) {
  for (size_t i = 0; i < puts.objects.size(); i++) {
    Prepared &item = puts.items[i];
    Error error;
    item.slot = {};
    item.counted = 0;
    item.ttl_ms = puts.ttl_ms;
    item.there = {};
    puts.settle(i, check_put(item.bytes, puts.objects[i], puts.typed, error), error);
    if (item.status != KVC_OK) continue;
    object_index_name(item.name, scope, key_of(puts.objects[i]));
    index_->prefetch_object(index_->hash(item.name));
  }
  puts.ahead_of(0);  // while the look-ups wait
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < puts.objects.size(); i++)
    if (Prepared &item = puts.items[i]; item.status == KVC_OK && (item.there = index_->find_object(item.name))) index_->pin(item.there);
}

/// Copies what is not there.  Returns how many items can be finished: when the room ends, those before go first, as what they put, or have found, may then
/// be evicted.
size_t Store::copy_in(Puts &puts, Scope &scope) {
  bool any = false;  // before this one: copied, or pinned
  for (size_t i = 0; i < puts.objects.size(); i++) {
    Prepared &item = puts.items[i];
    any = any || item.there;
    if (item.status != KVC_OK || item.there) continue;
    Error error;
    const void *next = puts.source(i + 1);
    kvc_status status = prepare_object(item, puts.objects[i], puts.typed, scope, next, error);
    if (status == KVC_ERR_FULL && any) return i;
    if (status == KVC_ERR_FULL && unpin_after(puts, i)) status = prepare_object(item, puts.objects[i], puts.typed, scope, next, error);
    puts.settle(i, status, error);
    any = any || status == KVC_OK;
    puts.ahead_of(i + 1);
  }
  return puts.objects.size();
}

/// The items behind this one come again later.  True: something may be evicted that was not before.
bool Store::unpin_after(Puts &puts, size_t item) {
  bool any = false;
  std::lock_guard lock(mutex_);
  for (size_t i = item + 1; i < puts.objects.size(); i++) {
    if (!puts.items[i].there) continue;
    index_->unpin(std::exchange(puts.items[i].there, {}), 0, false);
    any = true;
  }
  puts.objects = puts.objects.first(item + 1);
  return any;
}

/// Inserts the first `count`; what is there already, or is there by now, is compared.
void Store::finish_put(Puts &puts, size_t count, Scope &scope) {
  {
    kernels::table().fence();
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; i++) {
      Prepared &item = puts.items[i];
      if (!item.slot.generation) continue;
      Error error;
      const kvc_status status = insert_object(&item.there, item, puts.objects[i], scope, typed_flag(puts.typed), error);
      if (status == KVC_ERR_BUSY) index_->pin(item.there);
      else puts.settle(i, status, error), item.there = {};
    }
  }
  for (size_t i = 0; i < puts.objects.size(); i++) {
    Prepared &item = puts.items[i];
    if (item.there) {
      Error error;
      if (i < count) puts.settle(i, compare_object(item.there, puts.objects[i], item.bytes, error), error);
      std::lock_guard lock(mutex_);
      index_->unpin(item.there, next_tick(), false);
    }
    give_slot(item, scope);
  }
}

/// A group on its way through a put: ends with what it holds given back.
struct Store::Group {
  Group(Store &owner, Scope &its, size_t count, const TypedPut *layout) : store(owner), scope(its), typed(layout), items(count, &owner.resource_) {}
  ~Group() {
    for (Prepared &item : items) store.give_slot(item, scope);
    std::lock_guard lock(store.mutex_);
    for (const Prepared &item : items)
      if (item.there) store.index_->unpin(item.there, store.next_tick(), false);
  }
  Store &store;
  Scope &scope;
  const TypedPut *typed;
  std::pmr::vector<Prepared> items;
  size_t bad = 0;
};

/// What is there is pinned and compared, what is not is copied.
kvc_status Store::prepare_group(Group &group, std::span<kvc_object> objects, Error &error) {
  {
    std::lock_guard lock(mutex_);
    for (Prepared &item : group.items) {
      if (item.there && index_->held(item.there)) continue;
      if (item.there) index_->unpin(item.there, 0, false);
      if ((item.there = index_->find_object(item.name))) index_->pin(item.there);
    }
  }
  for (size_t i = 0; i < objects.size(); i++) {
    Prepared &item = group.items[i];
    group.bad = i;
    if (item.there) KVC_TRY(compare_object(item.there, objects[i], item.bytes, error));
    else if (!item.slot.generation) KVC_TRY(prepare_object(item, objects[i], group.typed, group.scope, nullptr, error));
  }
  return KVC_OK;
}

/// All in one hold of the lock, or none.  KVC_ERR_BUSY: somebody put or took away one of them meanwhile.
kvc_status Store::insert_group(Group &group, std::span<kvc_object> objects, Error &error) {
  std::pmr::vector<Ref> inserted(&resource_);
  inserted.reserve(objects.size());
  kvc_status status = KVC_OK;
  kernels::table().fence();
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < objects.size() && status == KVC_OK; i++) {
    Prepared &item = group.items[i];
    group.bad = i;
    if (item.there) {
      status = index_->held(item.there) ? KVC_OK : KVC_ERR_BUSY;
      continue;
    }
    Ref ref;
    status = insert_object(&ref, item, objects[i], group.scope, typed_flag(group.typed), error);
    if (status == KVC_OK) inserted.push_back(ref);
    // The same key twice in one group: the second is compared with the first, which nobody else has seen.
    else if (status == KVC_ERR_BUSY && std::ranges::find(inserted, ref) != inserted.end())
      status = compare_object(ref, objects[i], item.bytes, error);
  }
  if (status != KVC_OK)
    for (const Ref ref : inserted) drop_object(ref);
  return status;
}

/// All items become visible in one hold of the lock, or none.
kvc_status Store::put_group(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const TypedPut *typed, uint64_t ttl_ms, Error &error) {
  Group group(*this, scope, objects.size(), typed);
  for (Prepared &item : group.items) item.ttl_ms = ttl_ms;
  kvc_status status = KVC_OK;
  for (size_t i = 0; i < objects.size() && status == KVC_OK; i++) {
    Prepared &item = group.items[group.bad = i];
    if ((status = check_put(item.bytes, objects[i], typed, error)) == KVC_OK) object_index_name(item.name, scope, key_of(objects[i]));
  }
  if (status == KVC_OK) do {
      if ((status = prepare_group(group, objects, error)) == KVC_OK) status = insert_group(group, objects, error);
    } while (status == KVC_ERR_BUSY);
  if (status == KVC_OK) {
    for (kvc_object &object : objects) object.status = KVC_OK;
    for (const Prepared &item : group.items) result.bytes_host = result.bytes += item.bytes;
    result.done = objects.size();
    return KVC_OK;
  }
  for (kvc_object &object : objects) object.status = status;
  const Error why = error;
  Outcome outcome{result, error};
  outcome.item_count = group.bad;
  outcome.item(objects[group.bad], status, why);
  return status;
}

/// Out of the index and the order at once.  Under the lock.
void Store::drop_object(Ref ref) {
  reads_.settle(*index_);
  Scope &scope = *scopes_by_id_[index_->owner(ref).scope];
  if (scope.key_order.made()) scope.key_order.erase(object_key(slot_data(index_->node(ref))), ref);
  index_->drop(ref);
  queues_.room_freed();
}

kvc_status Store::object_put(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &o, Error &error) {
  KVC_TRY(check_object_options(o, KVC_OBJECT_GROUP, error));
  prepare_names(objects);
  const Aging aging(*this, scope);
  std::optional<TypedPut> layout;
  if (o.layout) KVC_TRY(prepare_layout(layout.emplace(), *o.layout, scope, error));
  const TypedPut *typed = layout ? &*layout : nullptr;
  if (o.flags & KVC_OBJECT_GROUP) return put_group(result, scope, objects, typed, o.ttl_ms, error);
  Outcome outcome{result, error};
  for (size_t at = 0; at < objects.size();) {
    Puts puts;
    puts.typed = typed;
    puts.ttl_ms = o.ttl_ms;
    puts.objects = objects.subspan(at, std::min(Puts::item_max, objects.size() - at));
    look_up(puts, scope);
    const size_t count = copy_in(puts, scope);
    finish_put(puts, count, scope);
    for (size_t i = 0; i < count; i++) {
      if (puts.items[i].status == KVC_OK) result.bytes += puts.items[i].bytes;
      outcome.item(puts.objects[i], puts.items[i].status, i == puts.bad ? puts.why : Error());
    }
    at += count;
  }
  result.bytes_host = result.bytes;
  return outcome.first;
}

kvc_status Store::object_delete(kvc_result &result, Scope &scope, std::span<kvc_object> objects, Error &error) {
  prepare_names(objects);
  const Aging aging(*this, scope);
  Outcome outcome{result, error};
  for (kvc_object &object : objects) {
    Error why;
    kvc_status status = check_object(nullptr, object, why);
    if (status == KVC_OK) {
      seq::Name name;
      object_index_name(name, scope, key_of(object));
      std::lock_guard lock(mutex_);
      if (const Ref ref = index_->find_object(name)) drop_object(ref);
      else status = fail(why, KVC_ERR_NOT_FOUND, "no such key");
    }
    outcome.item(object, status, why);
  }
  return outcome.first;
}

}  // namespace kvc::store
