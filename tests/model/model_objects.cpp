#include <algorithm>
#include <cstring>

#include "model.h"

namespace kvc::model {
namespace {

std::string value_of(uint64_t writer, uint64_t size) {
  std::string bytes(size, 0);
  for (uint64_t i = 0; i < size; i++) bytes[i] = static_cast<char>(mix(writer, i / 8) >> i % 8 * 8);
  return bytes;
}

kvc_object item(const std::string &key) {
  kvc_object object{};
  object.key = key.data();
  object.key_size = key.size();
  return object;
}

}  // namespace

std::string Model::some_key() {
  const uint64_t number = below(40);
  return std::string(number % 3 * 31, 'k') + std::to_string(10 + number % 20);  // 2, 33 and 64 bytes
}

void Model::hold_ballast() {
  std::string bytes = value_of(0, options_.ballast_bytes);
  kvc_bytes part{bytes.data(), bytes.size()};
  const std::string key = "ballast";
  kvc_object object = item(key);
  object.parts = &part;
  object.part_count = 1;
  MODEL_CHECK(kvc_object_put(nullptr, scopes_[0].handle, &object, 1, nullptr, nullptr, &error_) == KVC_OK, said());
  kvc_object_options o;
  KVC_INIT(&o);
  o.flags = KVC_OBJECT_LEASE;
  o.lease_ms = KVC_FOREVER;
  kvc_result result;
  KVC_INIT(&result);
  MODEL_CHECK(kvc_object_exists(&result, scopes_[0].handle, &object, 1, &o, nullptr, &error_) == KVC_OK, said());
  ballast_ = result.lease;
  scopes_[0].objects[key] = std::make_shared<Value>(Value{bytes});
}

void Model::object_put(bool group) {
  const int number = static_cast<int>(below(scopes_.size()));
  ScopeState &scope = scopes_[static_cast<size_t>(number)];
  std::vector<std::string> keys, values;
  for (uint64_t n = group ? 4 : 1; n; n--) {
    keys.push_back(some_key());
    const auto there = scope.objects.find(keys.back());
    values.push_back(there != scope.objects.end() && chance(group ? 90 : 40) ? there->second->bytes : value_of(++writer_, chance(10) ? below(100000) : below(5000)));
  }
  std::vector<kvc_object> items;
  std::vector<std::vector<kvc_bytes>> parts(keys.size());
  for (size_t i = 0; i < keys.size(); i++) {
    const uint64_t cut = below(values[i].size() + 1);
    parts[i] = {{values[i].data(), cut}, {values[i].data() + cut, values[i].size() - cut}};
    items.push_back(item(keys[i]));
    items.back().parts = parts[i].data();
    items.back().part_count = parts[i].size();
  }
  kvc_object_options o;
  KVC_INIT(&o);
  o.flags = group ? static_cast<uint32_t>(KVC_OBJECT_GROUP) : 0;
  note("put " + std::to_string(keys.size()) + " objects to scope " + std::to_string(number));
  const auto objects_before = scope.objects;
  const uint64_t before = evicted_now();
  const kvc_status status = kvc_object_put(nullptr, scope.handle, items.data(), items.size(), &o, nullptr, &error_);
  const bool evicted = evicted_now() != before;
  after();  // what went to make room, a value under one of the keys too
  auto would = scope.objects;
  kvc_status expected = KVC_OK;
  for (size_t i = 0; i < keys.size() && expected == KVC_OK; i++) {
    const auto there = would.find(keys[i]);
    if (there == would.end()) would[keys[i]] = std::make_shared<Value>(Value{values[i]});
    else if (there->second->bytes != values[i]) expected = KVC_ERR_EXISTS;
  }
  if (status == KVC_ERR_FULL) return;
  if (status == KVC_OK) {  // the list that sync took may have met the new ones
    for (size_t i = 0; i < keys.size(); i++) {
      const auto there = objects_before.find(keys[i]);
      auto &place = scope.objects[keys[i]];
      if (!place || place->bytes != values[i]) {
        MODEL_CHECK(there == objects_before.end() || evicted, "other bytes were put over " + keys[i]);
        for (const Hold &held : leases_)
          for (const auto &value : held.values) MODEL_CHECK(value != place || held.deadline_ms <= now_ms_, "an object that is held was replaced");
        if (place) place->alive = false;
        place = std::make_shared<Value>(Value{values[i]});
      }
    }
    return;
  }
  MODEL_CHECK(status == KVC_ERR_EXISTS && expected == KVC_ERR_EXISTS, said());
}

void Model::object_get() {
  ScopeState &scope = scopes_[below(scopes_.size())];
  const std::string key = some_key();
  const auto there = scope.objects.find(key);
  const uint64_t room = chance(15) ? below(4000) : 110000, cut = below(room + 1);
  std::vector<uint8_t> to(room + 1, 0xA5);
  kvc_bytes parts[2] = {{to.data(), cut}, {to.data() + cut, room - cut}};
  kvc_object object = item(key);
  object.parts = parts;
  object.part_count = 2;
  note("get " + key);
  const kvc_status status = kvc_object_get(nullptr, scope.handle, &object, 1, nullptr, nullptr, &error_);
  uint64_t written = 0;
  if (there == scope.objects.end()) {
    MODEL_CHECK(status == KVC_ERR_NOT_FOUND && object.status == status, said());
  } else {
    const std::string &value = there->second->bytes;
    MODEL_CHECK(status == (room < value.size() ? KVC_ERR_RANGE : KVC_OK), said());
    MODEL_CHECK(object.value_size == value.size(), std::to_string(object.value_size));
    if (status == KVC_OK) written = value.size();
    MODEL_CHECK(std::memcmp(to.data(), value.data(), written) == 0, "another value of " + key);
  }
  for (uint64_t i = written; i < to.size(); i++) MODEL_CHECK(to[i] == 0xA5, "byte " + std::to_string(i) + " behind the value was written");
}

void Model::object_exists() {
  ScopeState &scope = scopes_[below(scopes_.size())];
  std::vector<std::string> keys;
  for (uint64_t n = 1 + below(5); n; n--) keys.push_back(some_key());
  std::vector<kvc_object> items;
  for (const std::string &key : keys) items.push_back(item(key));
  const bool leased = chance(60) && leases_.size() < 6, leading = chance(30);
  kvc_object_options o;
  KVC_INIT(&o);
  o.flags = (leased ? static_cast<uint32_t>(KVC_OBJECT_LEASE) : 0) | (leading ? static_cast<uint32_t>(KVC_OBJECT_LEADING) : 0);
  o.lease_ms = 700;
  kvc_result result;
  KVC_INIT(&result);
  note("exists of " + std::to_string(keys.size()));
  MODEL_CHECK(kvc_object_exists(&result, scope.handle, items.data(), items.size(), &o, nullptr, &error_) == KVC_OK, said());
  Hold hold;
  bool stopped = false;
  uint64_t done = 0;
  for (size_t i = 0; i < keys.size(); i++) {
    const auto there = scope.objects.find(keys[i]);
    const bool found = there != scope.objects.end() && !(leading && stopped);
    MODEL_CHECK(items[i].status == (found ? KVC_OK : KVC_ERR_NOT_FOUND), keys[i]);
    if (found) hold.values.push_back(there->second);
    stopped = stopped || !found;
    done += !stopped;
  }
  MODEL_CHECK(result.done == done, std::to_string(result.done));
  MODEL_CHECK((result.lease != nullptr) == (leased && !hold.values.empty()), "the lease");
  if (!result.lease) return;
  hold.handle = result.lease;
  set_deadline(hold.deadline_ms, o.lease_ms);
  leases_.push_back(hold);
}

void Model::object_delete() {
  ScopeState &scope = scopes_[below(scopes_.size())];
  const std::string key = some_key();
  const auto there = scope.objects.find(key);
  kvc_object object = item(key);
  note("delete " + key);
  const kvc_status status = kvc_object_delete(nullptr, scope.handle, &object, 1, nullptr, &error_);
  MODEL_CHECK(status == (there == scope.objects.end() ? KVC_ERR_NOT_FOUND : KVC_OK), said());
  if (there == scope.objects.end()) return;
  // A lease on it goes on; when that has lapsed it cannot be renewed.
  there->second->alive = false;
  there->second->deleted = true;
  scope.objects.erase(there);
}

/// In order and complete; after an eviction it says what is left.
void Model::object_list(int number, bool check_all) {
  ScopeState &scope = scopes_[static_cast<size_t>(number)];
  std::map<std::string, uint64_t> listed;
  std::string last;
  kvc_object_entry entries[7];
  for (size_t count = 7; count == 7;) {
    MODEL_CHECK(kvc_object_list(entries, 7, &count, scope.handle, last.data(), last.size(), nullptr, &error_) == KVC_OK, said());
    for (size_t i = 0; i < count; i++) {
      const std::string key(reinterpret_cast<const char *>(entries[i].key), entries[i].key_size);
      MODEL_CHECK(last < key, "the order of " + key);
      last = key;
      listed[key] = entries[i].value_size;
    }
  }
  for (auto it = scope.objects.begin(); it != scope.objects.end();) {
    const auto found = listed.find(it->first);
    MODEL_CHECK(found != listed.end() || !check_all, it->first + " is missing");
    if (found == listed.end()) it->second->alive = false, it = scope.objects.erase(it);
    else ++it;
  }
  if (!check_all) return;
  for (const auto &[key, size] : listed) {
    const auto found = scope.objects.find(key);
    MODEL_CHECK(found != scope.objects.end() && found->second->bytes.size() == size, key + " was never put");
  }
}

}  // namespace kvc::model
