#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "../folder.h"
#include "base/fault.h"
#include "queue_host.h"

/// What a queue promises beside the results: order, holding back, cancelling, limits, descriptions that may be reused, endings in any order.
/// On a host-driven store nothing runs but in the calls that are made here.
namespace {

using namespace kvc_test;

size_t thread_count() {
  size_t count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (const dirent *entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

struct QueueRules : testing::Test {
  Host host{Host::options_of(16u << 20, KVC_OPEN_HOST_DRIVEN), {full_layers(1, 1, 8, 8)}, KVC_F16, 16};
  QueueHandle queue = make_queue(host.store, 8, 4096);
  SeqHandle seq = host.create();
  ErrorText error;
  const std::vector<int32_t> tokens = ids(1000);

  kvc_status append(uint64_t begin, uint64_t count, const kvc_call &call) { return kvc_append(seq, tokens.data() + begin, count, nullptr, 0, &call, &error); }
  uint64_t given() {
    auto info = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&info, seq, &error), KVC_OK) << error.message;
    return info.tokens_given;
  }
  uint32_t step(uint64_t budget_us = 1000000) {
    uint32_t more = 7;
    EXPECT_EQ(kvc_store_step(&more, host.store, budget_us, &error), KVC_OK) << error.message;
    return more;
  }
  std::vector<uint64_t> users(const std::vector<kvc_result> &results) {
    std::vector<uint64_t> out;
    for (const kvc_result &r : results) out.push_back(r.user);
    return out;
  }
};

TEST_F(QueueRules, a_message_that_is_cut_for_the_result_ends_behind_a_whole_character) {
  for (int more = 0; more < 3; more++) {
    std::string path = "/nonexistent/" + std::string(more, 'x');
    for (int i = 0; i < 60; i++) path += "\xE6\xBC\xA2";
    const kvc_call call = queued(queue, 1);
    ASSERT_EQ(kvc_seq_save(seq, path.c_str(), &call, &error), KVC_OK) << error.message;
    const auto results = drain_until(queue, 1);
    ASSERT_LT(results[0].status, 0);
    const std::string_view message = results[0].message;
    ASSERT_GT(message.size(), 100u);
    EXPECT_EQ(static_cast<uint8_t>(message.back()), 0xA2) << message;
  }
}

TEST_F(QueueRules, a_message_that_a_result_of_a_smaller_size_cuts_still_ends) {
  uint64_t inside = 0;  // of a character
  for (uint32_t bytes = 1; bytes < 60; bytes++) {
    const kvc_call call = queued(queue, 1);
    ASSERT_EQ(kvc_seq_save(seq, "/\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9/of/a/long/name", &call, &error), KVC_OK) << error.message;
    kvc_result result;
    std::memset(&result, 0xEE, sizeof result);
    result.size = static_cast<uint32_t>(offsetof(kvc_result, message)) + bytes;
    size_t count = 0;
    ASSERT_EQ(kvc_queue_drain(&result, 1, &count, queue, 5000000, &error), KVC_OK) << error.message;
    ASSERT_EQ(count, 1u);
    const size_t length = strnlen(result.message, bytes);
    ASSERT_LT(length, bytes);
    ASSERT_GE(length + 2, bytes) << "cut too early";
    ASSERT_FALSE(length && static_cast<uint8_t>(result.message[length - 1]) >= 0xC0) << "half a character: " << result.message;
    inside += length + 2 == bytes;
    ASSERT_EQ(static_cast<uint8_t>(result.message[bytes]), 0xEE);
  }
  EXPECT_EQ(inside, 5u);
}

TEST_F(QueueRules, calls_on_one_sequence_run_in_the_order_in_which_they_were_made) {
  for (uint64_t i = 0; i < 6; i++) ASSERT_EQ(append(i, 1, queued(queue, i)), KVC_OK) << error.message;
  Rows in(6), out(6);
  const kvc_rows write = in.fill(3, 0).describe(0), read = out.describe(0);
  const kvc_call sixth = queued(queue, 6), seventh = queued(queue, 7);
  ASSERT_EQ(kvc_append(seq, nullptr, 0, &write, 1, &sixth, &error), KVC_OK) << "rows of ids that are queued";
  ASSERT_EQ(kvc_gather(nullptr, seq, &read, 1, &seventh, &error), KVC_OK) << "and a read of rows that are queued";
  const auto results = drain(queue);
  EXPECT_EQ(users(results), (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const kvc_result &r : results) EXPECT_EQ(r.status, KVC_OK) << r.message;
  EXPECT_EQ(out.wrong(3, 0), 6u);
}

TEST_F(QueueRules, a_call_with_MORE_is_held_back_until_submit_drain_or_a_call_without) {
  ASSERT_EQ(append(0, 1, queued(queue, 1, KVC_CALL_MORE)), KVC_OK);
  EXPECT_EQ(step(), 0u);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, &error), KVC_OK);
  EXPECT_FALSE(readable(fd)) << "it was not started";
  ASSERT_EQ(kvc_queue_submit(queue, &error), KVC_OK);
  EXPECT_EQ(step(0), 1u) << "started, and no time to run it";
  EXPECT_EQ(step(), 0u);
  EXPECT_TRUE(readable(fd));
  ASSERT_EQ(append(1, 1, queued(queue, 2, KVC_CALL_MORE)), KVC_OK);
  ASSERT_EQ(append(2, 1, queued(queue, 3)), KVC_OK);
  EXPECT_EQ(step(), 0u);
  EXPECT_EQ(users(drain(queue)), (std::vector<uint64_t>{1, 2, 3}));
  ASSERT_EQ(append(3, 1, queued(queue, 4, KVC_CALL_MORE)), KVC_OK);
  EXPECT_EQ(users(drain(queue)), (std::vector<uint64_t>{4})) << "a drain starts it";
  EXPECT_FALSE(readable(fd));
  ASSERT_EQ(kvc_queue_submit(queue, &error), KVC_OK) << "nothing was held back";
}

TEST_F(QueueRules, a_cancelled_call_gives_CANCELLED_and_does_nothing_and_those_behind_it_run) {
  std::string key = "k";
  kvc_object object{};
  object.key = key.data(), object.key_size = 1;
  const kvc_call item = queued(queue, 5);
  ASSERT_EQ(append(0, 1, queued(queue, 1)), KVC_OK);
  ASSERT_EQ(append(1, 1, queued(queue, 2)), KVC_OK);
  ASSERT_EQ(append(1, 1, queued(queue, 3, KVC_CALL_MORE)), KVC_OK);
  ASSERT_EQ(kvc_object_delete(nullptr, host.scope, &object, 1, &item, &error), KVC_OK);
  ASSERT_EQ(kvc_queue_cancel(queue, 2, &error), KVC_OK);
  ASSERT_EQ(kvc_queue_cancel(queue, 5, &error), KVC_OK);
  EXPECT_EQ(kvc_queue_cancel(queue, 9, &error), KVC_ERR_NOT_FOUND);
  EXPECT_NE(error.text().find("user 9"), std::string::npos) << error.message;
  std::map<uint64_t, kvc_result> results;
  for (const kvc_result &r : drain(queue)) results[r.user] = r;
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[1].status, KVC_OK);
  EXPECT_EQ(results[2].status, KVC_ERR_CANCELLED);
  EXPECT_EQ(results[2].retry, static_cast<uint32_t>(KVC_RETRY_NOW));
  EXPECT_EQ(results[3].status, KVC_OK) << results[3].message;
  EXPECT_EQ(results[5].status, KVC_ERR_CANCELLED);
  EXPECT_EQ(object.status, KVC_ERR_CANCELLED) << "an item that was not come to has the call's status";
  EXPECT_EQ(given(), 2u);
  EXPECT_EQ(kvc_queue_cancel(queue, 1, &error), KVC_ERR_NOT_FOUND) << "drained";
}

TEST_F(QueueRules, a_call_that_is_through_stays_what_it_came_to_when_it_is_cancelled) {
  ASSERT_EQ(append(0, 1, queued(queue, 1)), KVC_OK);
  EXPECT_EQ(step(), 0u);
  EXPECT_EQ(kvc_queue_cancel(queue, 1, &error), KVC_OK) << "its result will come";
  EXPECT_EQ(drain(queue)[0].status, KVC_OK);
}

TEST_F(QueueRules, a_queue_that_nobody_drains_is_BUSY_at_its_depth_and_loses_nothing) {
  for (uint64_t i = 0; i < 8; i++) ASSERT_EQ(append(i, 1, queued(queue, i)), KVC_OK);
  EXPECT_EQ(append(8, 1, queued(queue, 8)), KVC_ERR_BUSY);
  EXPECT_NE(error.text().find("8 calls"), std::string::npos) << error.message;
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_LATER));
  EXPECT_EQ(step(), 0u);
  EXPECT_EQ(append(8, 1, queued(queue, 8)), KVC_ERR_BUSY) << "until results are drained";
  EXPECT_EQ(drain(queue, 0, 3).size(), 3u);
  for (uint64_t i = 8; i < 11; i++) ASSERT_EQ(append(i, 1, queued(queue, i)), KVC_OK) << error.message;
  EXPECT_EQ(append(11, 1, queued(queue, 11)), KVC_ERR_BUSY);
  EXPECT_EQ(users(drain(queue)), (std::vector<uint64_t>{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(given(), 11u);
}

TEST_F(QueueRules, descriptions_over_description_bytes_are_BUSY_and_have_room_again_when_calls_end) {
  const std::vector<int32_t> table(700);  // 2800 bytes of 4096
  Rows out(1);
  kvc_rows rows = out.describe(0);
  rows.block_tokens = 1, rows.blocks = table.data(), rows.block_count = table.size();
  kvc_call call = queued(queue, 1, KVC_CALL_MORE);
  ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &error), KVC_OK) << error.message;
  EXPECT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &error), KVC_ERR_BUSY);
  EXPECT_NE(error.text().find("description_bytes"), std::string::npos) << error.message;
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_LATER));
  EXPECT_EQ(drain(queue).size(), 1u);
  ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &error), KVC_OK) << error.message;
  EXPECT_EQ(drain(queue).size(), 1u);
  rows.block_count = KVC_ALL;
  EXPECT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &error), KVC_ERR_BUSY);
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << "no draining makes room for that";
  EXPECT_EQ(drain(queue).size(), 0u) << "a refused call gives no result";
}

TEST_F(QueueRules, what_describes_a_call_may_be_reused_when_it_has_returned) {
  ASSERT_EQ(append(0, 20, queued(queue)), KVC_OK);
  Rows in(20), out(3);
  std::vector<int32_t> table(20);
  for (int i = 0; i < 20; i++) table[i] = 19 - i;  // backwards
  kvc_rows write = in.describe(0);
  for (uint64_t i = 0; i < 20 * 8; i++) in.k[i] = Rows::value(1, 19 - i / 8, true), in.v[i] = Rows::value(1, 19 - i / 8, false);
  write.block_tokens = 1, write.blocks = table.data(), write.block_count = 20;
  kvc_call call = queued(queue);
  ASSERT_EQ(kvc_append(seq, nullptr, 0, &write, 1, &call, &error), KVC_OK) << error.message;
  std::memset(&write, 0xEE, sizeof write);
  std::fill(table.begin(), table.end(), 7);
  std::vector<uint64_t> list = {4, 17, 2};
  std::vector<kvc_rows> read(3, out.describe(0));
  for (int i = 0; i < 3; i++) {
    read[i].token_list = &list[i], read[i].token_count = 1;
    read[i].k.data = &out.k[i * 8], read[i].v.data = &out.v[i * 8], read[i].k.bytes = read[i].v.bytes = 16;
  }
  ASSERT_EQ(kvc_gather(nullptr, seq, read.data(), 3, &call, &error), KVC_OK) << error.message;
  std::memset(static_cast<void *>(read.data()), 0xEE, read.size() * sizeof read[0]);
  list = {0, 0, 0};
  std::memset(&call, 0xEE, sizeof call);
  for (const kvc_result &r : drain(queue)) EXPECT_EQ(r.status, KVC_OK) << r.message;
  const uint64_t right[] = {4, 17, 2};
  for (int i = 0; i < 24; i++) ASSERT_EQ(out.k[i], Rows::value(1, right[i / 8], true)) << i;
}

TEST_F(QueueRules, keys_parts_and_extras_may_be_reused_when_a_call_has_returned) {
  kvc_call call = queued(queue, 1);
  std::vector<uint8_t> first(100, 1), second(50, 2), got(150, 0xEE);
  std::string key = "a key", wrong = "b key";
  std::vector<kvc_bytes> parts = {{first.data(), 100}, {second.data(), 50}}, into = {{got.data(), 70}, {got.data() + 70, 80}};
  kvc_object put{}, get{};
  put.key = get.key = key.data(), put.key_size = get.key_size = key.size();
  put.parts = parts.data(), put.part_count = get.part_count = 2, get.parts = into.data();
  auto options = sized<kvc_object_options>();
  ASSERT_EQ(kvc_object_put(nullptr, host.scope, &put, 1, &options, &call, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_object_get(nullptr, host.scope, &get, 1, &options, &call, &error), KVC_OK) << error.message;
  key = wrong;
  parts.assign(2, {nullptr, 1});
  into.assign(2, {nullptr, 1});
  std::memset(&options, 0xEE, sizeof options);
  for (const kvc_result &r : drain(queue)) EXPECT_EQ(r.status, KVC_OK) << r.message;
  EXPECT_EQ(put.status, KVC_OK);
  EXPECT_EQ(get.status, KVC_OK);
  EXPECT_EQ(get.value_size, 150u);
  EXPECT_EQ(get.tier, static_cast<uint32_t>(KVC_TIER_HOST));
  EXPECT_TRUE(std::all_of(got.begin(), got.begin() + 100, [](uint8_t b) { return b == 1; }) && std::all_of(got.begin() + 100, got.end(), [](uint8_t b) { return b == 2; }));

  // A list after a key, and a match whose extras name other chunks.
  kvc_object_entry entry{};
  size_t count = 9;
  std::string after = "a ke";
  ASSERT_EQ(kvc_object_list(&entry, 1, &count, host.scope, after.data(), after.size(), &call, &error), KVC_OK) << error.message;
  after = "zzzz";
  EXPECT_EQ(drain(queue)[0].done, 1u);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(entry.key), entry.key_size), "a key");
  auto described = sized<kvc_seq_options>();
  std::string digest = "image";
  kvc_extra extra{0, 4, digest.data(), digest.size()};
  described.extras = &extra, described.extra_count = 1;
  SeqHandle named;
  ASSERT_EQ(kvc_seq_create(named.out(), host.scope, &described, &error), KVC_OK);
  Rows rows(16);
  ASSERT_EQ(host.append(named, std::vector<int32_t>(tokens.begin(), tokens.begin() + 16), {rows.describe(0)}), KVC_OK) << error.message;
  ASSERT_EQ(kvc_match(nullptr, nullptr, host.scope, tokens.data(), 16, &described, &call, &error), KVC_OK) << error.message;
  digest = "other";
  extra = {8, 1, nullptr, 9};
  std::memset(&described, 0xEE, sizeof described);
  const kvc_result matched = drain(queue)[0];
  EXPECT_EQ(matched.done, 16u) << matched.message;
  EXPECT_EQ(kvc_seq_release(matched.seq, &error), KVC_OK);
}

TEST_F(QueueRules, every_call_of_a_store_that_takes_a_queue_says_what_it_was) {
  kvc_call call = queued(queue, 3);
  kvc_object object{};
  object.key = "k", object.key_size = 1;
  auto lease = sized<kvc_object_options>();
  lease.flags = KVC_OBJECT_LEASE;
  auto verified = sized<kvc_verify_info>();
  ASSERT_EQ(append(0, 1, call), KVC_OK);
  Rows row(1);
  const kvc_rows write = row.describe(0);
  ASSERT_EQ(kvc_append(seq, nullptr, 0, &write, 1, &call, &error), KVC_OK);
  ASSERT_EQ(kvc_object_put(nullptr, host.scope, &object, 1, nullptr, &call, &error), KVC_OK);
  ASSERT_EQ(kvc_object_exists(nullptr, host.scope, &object, 1, &lease, &call, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_seq_lease(nullptr, seq, 0, 1, 0, &call, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_store_verify(&verified, host.store, &call, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, &call, &error), KVC_OK) << error.message;
  const auto results = drain(queue);
  std::vector<uint32_t> operations;
  for (const kvc_result &r : results) {
    EXPECT_EQ(r.status, KVC_OK) << r.operation << ": " << r.message;
    operations.push_back(r.operation);
  }
  std::ranges::sort(operations);
  EXPECT_EQ(operations, (std::vector<uint32_t>{KVC_OP_APPEND, KVC_OP_APPEND, KVC_OP_LEASE, KVC_OP_VERIFY, KVC_OP_OBJECT_PUT, KVC_OP_OBJECT_EXISTS, KVC_OP_SCOPE_CLEAR}));
  EXPECT_EQ(verified.pages_read, 1u) << "the object";
  for (const kvc_result &r : results) {
    EXPECT_EQ(r.lease != nullptr, r.operation == KVC_OP_LEASE || r.operation == KVC_OP_OBJECT_EXISTS);
    EXPECT_EQ(kvc_lease_release(r.lease, &error), KVC_OK);
  }
  object = {};
  ASSERT_EQ(kvc_object_exists(nullptr, host.scope, &object, 1, nullptr, &call, &error), KVC_OK) << "an empty key is an item's fault";
  const auto wrong = drain(queue);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].status, KVC_ERR_ARGUMENT);
  lease.flags = KVC_OBJECT_GROUP;
  EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &object, 1, &lease, &call, &error), KVC_ERR_ARGUMENT) << "what can be seen at once is refused at once";
  EXPECT_EQ(object.status, KVC_ERR_ARGUMENT);
  EXPECT_EQ(drain(queue).size(), 0u);
}

TEST_F(QueueRules, a_save_and_a_restore_run_in_a_queue_too) {
  Rows in(16), out(16);
  const kvc_rows write = in.fill(5, 0).describe(0);
  const Folder folder;
  std::string path = folder / "saved";
  const std::string same = path;
  kvc_call call = queued(queue, 1);
  ASSERT_EQ(kvc_append(seq, tokens.data(), 16, &write, 1, &call, &error), KVC_OK);
  ASSERT_EQ(kvc_seq_save(seq, path.c_str(), &call, &error), KVC_OK) << error.message;
  path.assign(path.size(), 'x');
  for (const kvc_result &r : drain(queue)) ASSERT_EQ(r.status, KVC_OK) << r.message;
  ASSERT_EQ(kvc_seq_restore(nullptr, host.scope, same.c_str(), nullptr, &call, &error), KVC_OK) << error.message;
  const kvc_result restored = drain(queue)[0];
  ASSERT_EQ(restored.status, KVC_OK) << restored.message;
  EXPECT_EQ(restored.operation, static_cast<uint32_t>(KVC_OP_RESTORE));
  SeqHandle again(restored.seq);
  EXPECT_EQ(host.gather(again, {out.describe(0)}), KVC_OK);
  EXPECT_EQ(out.wrong(5, 0), 16u);
}

TEST_F(QueueRules, gets_that_run_as_one_have_results_of_their_own) {
  constexpr size_t count = 40;
  QueueHandle deep = make_queue(host.store, count);
  std::vector<std::string> keys;
  std::vector<std::vector<uint8_t>> values, got;
  std::vector<kvc_bytes> parts(count);
  std::vector<kvc_object> objects(count);
  keys.reserve(count);  // short strings lie where they stand
  for (size_t i = 0; i < count; i++) {
    keys.push_back("key " + std::to_string(i));
    values.emplace_back(100 + i, static_cast<uint8_t>(i));
    got.emplace_back(300, 0xEE);
    parts[i] = {values[i].data(), values[i].size()};
    objects[i].key = keys[i].data(), objects[i].key_size = keys[i].size(), objects[i].parts = &parts[i], objects[i].part_count = 1;
    const bool absent = i == 0 || i == 17 || i == 18;
    if (!absent) {
      ASSERT_EQ(kvc_object_put(nullptr, host.scope, &objects[i], 1, nullptr, nullptr, &error), KVC_OK);
    }
  }
  const auto wanted = [](size_t i) { return i == 0 || i == 17 || i == 18 ? KVC_ERR_NOT_FOUND : i == 5 ? KVC_ERR_RANGE : i == 6 ? KVC_ERR_ARGUMENT : KVC_OK; };
  for (size_t i = 0; i < count; i++) {
    const kvc_call call = queued(deep, i, KVC_CALL_MORE);
    parts[i] = {got[i].data(), i == 5 ? 9u : 300u};
    if (i == 6) objects[i].key_size = 65;
    ASSERT_EQ(kvc_object_get(nullptr, host.scope, &objects[i], 1, nullptr, &call, &error), KVC_OK) << error.message;
  }
  const auto results = drain(deep);
  ASSERT_EQ(results.size(), count);
  std::vector<int> seen(count);
  for (const kvc_result &r : results) {
    const size_t i = r.user;
    ASSERT_LT(i, count);
    seen[i]++;
    EXPECT_EQ(r.status, wanted(i)) << i << ": " << r.message;
    EXPECT_EQ(objects[i].status, wanted(i));
    EXPECT_EQ(r.done, wanted(i) == KVC_OK);
    EXPECT_EQ(r.message[0] != 0, wanted(i) != KVC_OK);
    if (wanted(i) != KVC_OK) continue;
    EXPECT_EQ(r.bytes, 100 + i);
    EXPECT_EQ(r.bytes_host, 100 + i);
    EXPECT_EQ(objects[i].value_size, 100 + i);
    EXPECT_EQ(objects[i].tier, static_cast<uint32_t>(KVC_TIER_HOST));
    got[i].resize(values[i].size());
    EXPECT_EQ(got[i], values[i]);
  }
  EXPECT_EQ(seen, std::vector<int>(count, 1));
}

TEST_F(QueueRules, a_released_sequence_is_stale_at_once_and_its_queued_calls_deliver) {
  Rows in(16);
  const kvc_rows write = in.fill(1, 0).describe(0);
  const kvc_call call = queued(queue, 1);
  ASSERT_EQ(kvc_append(seq, tokens.data(), 16, &write, 1, &call, &error), KVC_OK);
  kvc_seq *gone = seq.release();
  ASSERT_EQ(kvc_seq_release(gone, &error), KVC_OK);
  EXPECT_EQ(kvc_seq_release(gone, &error), KVC_ERR_STALE);
  EXPECT_EQ(kvc_append(gone, tokens.data(), 1, nullptr, 0, &call, &error), KVC_ERR_STALE);
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &error), KVC_OK);
  EXPECT_EQ(info.seq_count, 1u) << "it lives on";
  EXPECT_EQ(drain(queue)[0].status, KVC_OK);
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &error), KVC_OK);
  EXPECT_EQ(info.seq_count, 0u);
  uint64_t length = 0;
  SeqHandle matched = host.match(std::vector<int32_t>(tokens.begin(), tokens.begin() + 16), &length);
  EXPECT_EQ(length, 16u) << "what it appended was sealed";
}

TEST_F(QueueRules, a_released_scope_is_stale_at_once_and_its_queued_calls_deliver) {
  kvc_object object{};
  object.key = "k", object.key_size = 1;
  const kvc_call call = queued(queue, 1);
  ASSERT_EQ(kvc_object_put(nullptr, host.scope, &object, 1, nullptr, &call, &error), KVC_OK);
  kvc_scope *gone = host.scope.release();
  ASSERT_EQ(kvc_scope_release(gone, &error), KVC_OK);
  EXPECT_EQ(kvc_object_put(nullptr, gone, &object, 1, nullptr, &call, &error), KVC_ERR_STALE);
  const auto results = drain(queue);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].status, KVC_OK) << results[0].message;
}

TEST_F(QueueRules, the_release_of_a_queue_cancels_what_has_not_started_and_releases_what_its_results_gave) {
  const kvc_call call = queued(queue, 1);
  ASSERT_EQ(kvc_match(nullptr, nullptr, host.scope, tokens.data(), 16, nullptr, &call, &error), KVC_OK);
  ASSERT_EQ(append(0, 1, call), KVC_OK);
  EXPECT_EQ(step(), 0u);
  ASSERT_EQ(append(1, 1, call), KVC_OK);
  ASSERT_EQ(append(2, 1, queued(queue, 2, KVC_CALL_MORE)), KVC_OK);
  queue.reset();
  EXPECT_EQ(given(), 1u);
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &error), KVC_OK);
  EXPECT_EQ(info.seq_count, 1u) << "the match's sequence is released";
}

TEST_F(QueueRules, a_host_driven_store_has_no_thread_and_steps_only_for_its_host) {
  const size_t before = thread_count();
  Host other(Host::options_of(2u << 20, KVC_OPEN_HOST_DRIVEN), {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  QueueHandle own = make_queue(other.store);
  EXPECT_EQ(thread_count(), before);
  auto options = Host::options_of(2u << 20);
  options.worker_count = 3;
  Host threaded(options, {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  EXPECT_EQ(thread_count(), before) << "none before the first queue";
  QueueHandle first = make_queue(threaded.store);
  QueueHandle second = make_queue(threaded.store);
  EXPECT_EQ(thread_count(), before + 3);
  uint32_t more;
  EXPECT_EQ(kvc_store_step(&more, threaded.store, 1, &error), KVC_ERR_MISUSE);
  first.reset();
  second.reset();
  threaded.scope.reset();
  threaded.store.reset();
  EXPECT_EQ(thread_count(), before) << "a close ends them";
}

TEST_F(QueueRules, queues_over_queue_max_are_FULL) {
  auto options = Host::options_of(2u << 20);
  options.queue_max = 2;
  Host small(options, {}, 0, 0);
  QueueHandle one = make_queue(small.store), two = make_queue(small.store);
  kvc_queue *three = reinterpret_cast<kvc_queue *>(7);
  EXPECT_EQ(kvc_queue_create(&three, small.store, nullptr, &error), KVC_ERR_FULL);
  EXPECT_NE(error.text().find("queue_max"), std::string::npos) << error.message;
  EXPECT_EQ(three, nullptr);
  one.reset();
  one = make_queue(small.store);
}

TEST_F(QueueRules, bad_arguments_are_named) {
  const auto refused = [&](kvc_status status, kvc_status wanted, const char *text) {
    EXPECT_EQ(status, wanted) << text;
    EXPECT_NE(error.text().find(text), std::string::npos) << error.message;
  };
  auto options = sized<kvc_queue_options>();
  kvc_queue *out = nullptr;
  auto result = sized<kvc_result>();
  size_t count = 9;
  refused(kvc_queue_create(nullptr, host.store, nullptr, &error), KVC_ERR_ARGUMENT, "out is NULL");
  options.flags = 1;
  refused(kvc_queue_create(&out, host.store, &options, &error), KVC_ERR_TOO_NEW, "flags 0x1");
  options.flags = 0, options.reserved = 2;
  refused(kvc_queue_create(&out, host.store, &options, &error), KVC_ERR_TOO_NEW, "reserved is 2");
  refused(kvc_queue_fd(nullptr, queue, &error), KVC_ERR_ARGUMENT, "fd is NULL");
  refused(kvc_queue_drain(nullptr, 1, &count, queue, 0, &error), KVC_ERR_ARGUMENT, "results is NULL");
  EXPECT_EQ(count, 0u);
  refused(kvc_queue_drain(&result, 0, &count, queue, 0, &error), KVC_ERR_ARGUMENT, "result_capacity 0");
  refused(kvc_queue_drain(&result, 1, nullptr, queue, 0, &error), KVC_ERR_ARGUMENT, "result_count is NULL");
  result.size = 24;
  refused(kvc_queue_drain(&result, 1, &count, queue, 0, &error), KVC_ERR_ARGUMENT, "results[0].size 24");
  refused(kvc_store_step(nullptr, host.store, 0, &error), KVC_ERR_ARGUMENT, "more is NULL");
  refused(kvc_queue_submit(reinterpret_cast<kvc_queue *>(static_cast<kvc_seq *>(seq)), &error), KVC_ERR_MISUSE, "kvc_queue");
}

}  // namespace
