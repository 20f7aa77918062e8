#include <algorithm>
#include <array>
#include <string_view>

#include "host.h"

/// Objects: what is refused, what an item reports, and that a refusal stores and writes nothing.
namespace {

using namespace kvc_test;

struct ObjectsTest : testing::Test {
  Host host{{}};
  std::string value = "the value of a key";
  std::vector<uint8_t> room = std::vector<uint8_t>(64, 0xEE);

  kvc_bytes part{value.data(), value.size()};
  kvc_object item(std::string_view key, const kvc_bytes *parts, uint64_t part_count) {
    kvc_object o{};
    o.key = key.data(), o.key_size = key.size(), o.parts = parts, o.part_count = part_count;
    o.status = 12345, o.tier = 99, o.value_size = 88;
    return o;
  }
  kvc_status put(kvc_object &o, const kvc_object_options *options = nullptr) {
    return kvc_object_put(nullptr, host.scope, &o, 1, options, nullptr, &host.error);
  }
  kvc_status get(kvc_object &o) { return kvc_object_get(nullptr, host.scope, &o, 1, nullptr, nullptr, &host.error); }
  uint64_t count() {
    auto i = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&i, host.store, nullptr), KVC_OK);
    EXPECT_EQ(i.object_count == 0, i.memory_used == 0);
    return i.object_count;
  }
};

TEST_F(ObjectsTest, keys_are_1_to_64_bytes_in_every_call) {
  const std::string long_key(65, 'k'), longest(64, 'k');
  for (kvc_object o : {item("", &part, 1), item(long_key, &part, 1), [&] {
                         kvc_object n = item("x", &part, 1);
                         n.key = nullptr;
                         return n;
                       }()}) {
    EXPECT_EQ(put(o), KVC_ERR_ARGUMENT);
    EXPECT_EQ(o.status, KVC_ERR_ARGUMENT);
    EXPECT_NE(host.error.text().find("key of " + std::to_string(o.key_size)), std::string::npos) << host.error.message;
    EXPECT_EQ(host.error.text().find("key \"kkkk") != std::string::npos, o.key && o.key_size) << host.error.message;
    EXPECT_EQ(get(o), KVC_ERR_ARGUMENT);
    EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &o, 1, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT);
    EXPECT_EQ(kvc_object_delete(nullptr, host.scope, &o, 1, nullptr, &host.error), KVC_ERR_ARGUMENT);
    EXPECT_EQ(count(), 0u);
  }
  kvc_object_entry entry;
  size_t n;
  EXPECT_EQ(kvc_object_list(&entry, 1, &n, host.scope, long_key.data(), 65, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_list(&entry, 1, &n, host.scope, nullptr, 5, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_list(&entry, 0, &n, host.scope, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_list(nullptr, 1, &n, host.scope, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_list(&entry, 1, nullptr, host.scope, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT);
  kvc_object o = item(longest, &part, 1);
  EXPECT_EQ(put(o), KVC_OK) << host.error.message;
}

TEST_F(ObjectsTest, batches_of_nothing_and_flags_that_are_not_for_the_call) {
  kvc_object o = item("a", &part, 1);
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, nullptr, 1, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, &o, 0, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("object_count 0"), std::string::npos) << host.error.message;
  auto options = sized<kvc_object_options>();
  const auto flags = [&](uint32_t f) { return options.flags = f, &options; };
  EXPECT_EQ(put(o, flags(8)), KVC_ERR_TOO_NEW);
  EXPECT_EQ(put(o, flags(KVC_OBJECT_LEADING)), KVC_ERR_ARGUMENT);
  EXPECT_EQ(put(o, flags(KVC_OBJECT_LEASE)), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_get(nullptr, host.scope, &o, 1, flags(KVC_OBJECT_GROUP), nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &o, 1, flags(KVC_OBJECT_GROUP), nullptr, &host.error), KVC_ERR_ARGUMENT);
  flags(0);
  EXPECT_EQ(count(), 0u);
}

TEST_F(ObjectsTest, parts_that_are_not_there_or_overflow) {
  const kvc_bytes null_part{nullptr, 3}, huge[] = {{value.data(), UINT64_MAX}, {value.data(), 1}};
  kvc_object cases[] = {item("a", nullptr, 2), item("a", &null_part, 1), item("a", huge, 2), item("a", huge, 1)};
  for (kvc_object &o : cases) {
    EXPECT_EQ(put(o), KVC_ERR_ARGUMENT) << host.error.message;
    EXPECT_EQ(get(o), KVC_ERR_ARGUMENT) << host.error.message;
  }
  const kvc_bytes too_large{value.data(), 1ull << 50};
  kvc_object large = item("a", &too_large, 1);
  EXPECT_EQ(put(large), KVC_ERR_FULL) << host.error.message;
  EXPECT_EQ(host.error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << "it is larger than the store: " << host.error.message;
  kvc_object device = item("a", &part, 1);
  device.memory = KVC_MEMORY_CUDA;
  EXPECT_EQ(put(device), KVC_ERR_UNSUPPORTED);
  device.memory = 9;
  EXPECT_EQ(put(device), KVC_ERR_ARGUMENT);
  EXPECT_EQ(count(), 0u);
}

TEST_F(ObjectsTest, equal_bytes_again_are_ok_and_other_bytes_exist) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK) << host.error.message;
  EXPECT_EQ(o.status, KVC_OK);
  const kvc_bytes halves[] = {{value.data(), 5}, {nullptr, 0}, {value.data() + 5, value.size() - 5}};
  kvc_object again = item("a", halves, 3);
  EXPECT_EQ(put(again), KVC_OK) << host.error.message;
  std::string other = value;
  other.back() ^= 1;
  const kvc_bytes wrong{other.data(), other.size()}, shorter{value.data(), value.size() - 1};
  for (const kvc_bytes *p : {&wrong, &shorter}) {
    kvc_object refused = item("a", p, 1);
    EXPECT_EQ(put(refused), KVC_ERR_EXISTS);
    EXPECT_EQ(refused.status, KVC_ERR_EXISTS);
  }
  const kvc_bytes into{room.data(), room.size()};
  kvc_object read = item("a", &into, 1);
  ASSERT_EQ(get(read), KVC_OK) << host.error.message;
  EXPECT_EQ(read.value_size, value.size());
  EXPECT_EQ(read.tier, static_cast<uint32_t>(KVC_TIER_HOST));
  EXPECT_EQ(std::memcmp(room.data(), value.data(), value.size()), 0);
  EXPECT_EQ(room[value.size()], 0xEE);  // longer parts are left alone behind the value
}

TEST_F(ObjectsTest, items_that_a_call_did_not_come_to_have_its_status_and_never_look_found) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK);
  const auto fresh = [&] {
    kvc_object items[2] = {item("a", nullptr, 0), item("", nullptr, 0)};
    for (kvc_object &i : items) i.status = KVC_OK;
    return std::array{items[0], items[1]};
  };
  auto options = sized<kvc_object_options>();
  options.flags = 1u << 30;
  auto items = fresh();
  EXPECT_EQ(kvc_object_get(nullptr, host.scope, items.data(), 2, &options, nullptr, &host.error), KVC_ERR_TOO_NEW);
  for (const kvc_object &i : items) EXPECT_EQ(i.status, KVC_ERR_TOO_NEW);
  items = fresh();
  EXPECT_EQ(kvc_object_exists(nullptr, host.scope, items.data(), 2, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT);
  for (const kvc_object &i : items) EXPECT_EQ(i.status, KVC_ERR_ARGUMENT);
  items = fresh();
  EXPECT_EQ(kvc_object_delete(nullptr, host.scope, items.data(), 2, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(items[0].status, KVC_OK) << "one that fails does not stop the rest";
  EXPECT_EQ(items[1].status, KVC_ERR_ARGUMENT);
  EXPECT_EQ(count(), 0u);
  kvc_scope *gone = host.make_scope("gone", {}, 0, 0).release();
  ASSERT_EQ(kvc_scope_release(gone, nullptr), KVC_OK);
  items = fresh();
  EXPECT_EQ(kvc_object_get(nullptr, gone, items.data(), 2, nullptr, nullptr, &host.error), KVC_ERR_STALE);
  for (const kvc_object &i : items) EXPECT_EQ(i.status, KVC_ERR_STALE);
}

TEST_F(ObjectsTest, what_a_batch_or_group_finds_held_makes_room_as_it_would_alone) {
  std::vector<uint8_t> large(3u << 20, 7), other(3u << 20, 8);
  const kvc_bytes large_part{large.data(), large.size()}, other_part{other.data(), other.size()};
  for (const bool behind : {false, true}) {
    host.scope.reset();
    host = Host({}, KVC_F16, 0, 4u << 20);
    kvc_object a = item("a", &large_part, 1);
    ASSERT_EQ(put(a), KVC_OK);
    kvc_object items[] = {item("a", &large_part, 1), item("b", &other_part, 1)};
    if (behind) std::swap(items[0], items[1]);
    const kvc_status status = kvc_object_put(nullptr, host.scope, items, 2, nullptr, nullptr, &host.error);
    EXPECT_EQ(status, KVC_OK) << host.error.message;
    for (const kvc_object &i : items) EXPECT_EQ(i.status, KVC_OK) << behind;
  }
  kvc_object group[] = {item(std::string_view("b"), &other_part, 1)};
  host.scope.reset();
  host = Host({}, KVC_F16, 0, 4u << 20);
  ASSERT_EQ(put(group[0]), KVC_OK);
  auto options = sized<kvc_object_options>();
  auto result = sized<kvc_result>();
  options.flags = KVC_OBJECT_LEASE;
  ASSERT_EQ(kvc_object_exists(&result, host.scope, group, 1, &options, nullptr, &host.error), KVC_OK);
  const LeaseHandle lease(result.lease);
  options.flags = KVC_OBJECT_GROUP;
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, group, 1, &options, nullptr, &host.error), KVC_OK) << "it is there: " << host.error.message;
}

TEST_F(ObjectsTest, a_key_twice_in_a_group_is_one_object_when_the_bytes_are_equal) {
  std::string other_value = "other";
  const kvc_bytes other{other_value.data(), other_value.size()};
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_GROUP;
  kvc_object group[] = {item("a", &part, 1), item("b", &part, 1), item("a", &part, 1)};
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, group, 3, &options, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(count(), 2u);
  kvc_object differing[] = {item("c", &part, 1), item("c", &other, 1)};
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, differing, 2, &options, nullptr, &host.error), KVC_ERR_EXISTS);
  EXPECT_EQ(count(), 2u);
}

TEST_F(ObjectsTest, a_put_says_how_many_bytes_it_took) {
  kvc_object items[] = {item("a", &part, 1), item("", &part, 1), item("b", &part, 1), item("a", &part, 1)};
  auto result = sized<kvc_result>();
  EXPECT_EQ(kvc_object_put(&result, host.scope, items, 4, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(result.bytes, 3 * value.size()) << "of all that are OK";
  EXPECT_EQ(result.bytes_host, result.bytes);
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_GROUP;
  items[1] = item("c", &part, 1);
  EXPECT_EQ(kvc_object_put(&result, host.scope, items, 3, &options, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(result.bytes, 3 * value.size());
}

TEST_F(ObjectsTest, short_parts_are_told_the_size_and_not_written_to) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK);
  const kvc_bytes pieces[] = {{room.data(), 10}, {room.data() + 20, value.size() - 11}};  // one byte short in all
  kvc_object read = item("a", pieces, 2);
  auto result = sized<kvc_result>();
  EXPECT_EQ(kvc_object_get(&result, host.scope, &read, 1, nullptr, nullptr, &host.error), KVC_ERR_RANGE);
  EXPECT_EQ(read.status, KVC_ERR_RANGE);
  EXPECT_EQ(read.value_size, value.size());
  EXPECT_EQ(result.bytes, 0u);
  EXPECT_EQ(result.status, KVC_ERR_RANGE);
  EXPECT_EQ(std::count(room.begin(), room.end(), 0xEE), 64);
}

TEST_F(ObjectsTest, items_that_a_leading_get_did_not_come_to_have_the_status_of_the_call) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK);
  const kvc_bytes small{room.data(), 1};
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_LEADING;
  const auto expect = [&](kvc_object middle, kvc_status status) {
    const kvc_bytes into{room.data(), room.size()};
    kvc_object items[] = {item("a", &into, 1), middle, item("a", &into, 1), item("b", &into, 1)};
    auto result = sized<kvc_result>();
    EXPECT_EQ(kvc_object_get(&result, host.scope, items, 4, &options, nullptr, &host.error), status);
    EXPECT_EQ(result.done, 1u);
    EXPECT_EQ(items[0].status, KVC_OK);
    for (int i = 1; i < 4; i++) EXPECT_EQ(items[i].status, status) << i;
    EXPECT_EQ(items[3].value_size, 0u);
  };
  expect(item("b", &small, 1), KVC_ERR_NOT_FOUND);
  expect(item("a", &small, 1), KVC_ERR_RANGE);
  expect(item("", &small, 1), KVC_ERR_ARGUMENT);
}

TEST_F(ObjectsTest, items_report_what_is_absent) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK);
  const kvc_bytes into{room.data(), room.size()};
  kvc_object items[] = {item("a", &into, 1), item("b", &into, 1), item("a", &into, 1)};
  auto result = sized<kvc_result>();
  EXPECT_EQ(kvc_object_get(&result, host.scope, items, 3, nullptr, nullptr, &host.error), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(result.done, 1u);
  EXPECT_EQ(items[1].status, KVC_ERR_NOT_FOUND);
  EXPECT_EQ(items[1].tier, 0u);
  EXPECT_EQ(items[1].value_size, 0u);
  EXPECT_EQ(items[2].status, KVC_OK);  // one that fails does not stop the rest
  kvc_object found[] = {item("b", nullptr, 0), item("a", nullptr, 0)};
  EXPECT_EQ(kvc_object_exists(&result, host.scope, found, 2, nullptr, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(found[0].status, KVC_ERR_NOT_FOUND);
  EXPECT_EQ(found[0].tier, 0u);
  EXPECT_EQ(found[1].status, KVC_OK);
  EXPECT_EQ(found[1].value_size, value.size());
}

TEST_F(ObjectsTest, a_lease_needs_a_place_to_come_in) {
  kvc_object o = item("a", &part, 1);
  ASSERT_EQ(put(o), KVC_OK);
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_LEASE;
  EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &o, 1, &options, nullptr, &host.error), KVC_ERR_ARGUMENT);
  auto result = sized<kvc_result>();
  result.size = offsetof(kvc_result, lease);  // an older header's struct
  EXPECT_EQ(kvc_object_exists(&result, host.scope, &o, 1, &options, nullptr, &host.error), KVC_ERR_ARGUMENT);
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, nullptr), KVC_OK);
  EXPECT_EQ(info.lease_count, 0u);
  result = sized<kvc_result>();
  ASSERT_EQ(kvc_object_exists(&result, host.scope, &o, 1, &options, nullptr, &host.error), KVC_OK) << host.error.message;
  LeaseHandle lease(result.lease);
  EXPECT_NE(result.lease, nullptr);
}

TEST_F(ObjectsTest, a_group_with_one_bad_item_stores_none) {
  kvc_object first = item("held", &part, 1);
  ASSERT_EQ(put(first), KVC_OK);
  std::string other = "other";
  const kvc_bytes wrong{other.data(), other.size()};
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_GROUP;
  kvc_object group[] = {item("new 1", &part, 1), item("held", &wrong, 1), item("new 2", &part, 1)};
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, group, 3, &options, nullptr, &host.error), KVC_ERR_EXISTS);
  for (const kvc_object &one : group) EXPECT_EQ(one.status, KVC_ERR_EXISTS) << "none of them was put";
  EXPECT_EQ(count(), 1u);
  group[1] = item("", &part, 1);
  EXPECT_EQ(kvc_object_put(nullptr, host.scope, group, 3, &options, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
