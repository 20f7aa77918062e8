#include <thread>

#include "../api/queue_host.h"
#include "base/clock.h"
#include "seam_store.h"

/// Deadlines of queued calls, calls that wait for them, and room that is waited for: by a clock that moves when told to.
namespace {

using namespace kvc_test;

struct QueueTime : testing::TestWithParam<bool> {
  kvc::base::ManualClock clock;
  StoreHandle store = open(0);
  ScopeHandle scope = make_scope(store, "test", {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  QueueHandle queue = make_queue(store);
  ErrorText error;

  StoreHandle open(uint32_t flags, uint64_t open_bytes_max = 2u << 20) {
    kvc_store_options options = Host::options_of(2u << 20, flags | (GetParam() ? static_cast<uint32_t>(KVC_OPEN_HOST_DRIVEN) : 0));
    options.open_bytes_max = open_bytes_max, options.worker_count = 2, options.timeout_us = 5000000, options.lease_ms = 1000;
    return open_with({.clock = &clock}, options);
  }
  void reopen(uint32_t flags, uint64_t open_bytes_max = 2u << 20) {
    queue.reset();
    scope.reset();
    store = open(flags, open_bytes_max);
    scope = make_scope(store, "test", {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
    queue = make_queue(store);
  }
  SeqHandle create() {
    SeqHandle out;
    EXPECT_EQ(kvc_seq_create(out.out(), scope, nullptr, &error), KVC_OK) << error.message;
    return out;
  }
  kvc_status append_one(kvc_seq *seq, int32_t token, const kvc_call *call) { return kvc_append(seq, &(tokens[token] = token), 1, nullptr, 0, call, &error); }
  uint64_t given(const kvc_seq *seq) {
    auto info = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&info, seq, &error), KVC_OK) << error.message;
    return info.tokens_given;
  }

  /// A value of its own kind of bytes under `key`.
  struct Value {
    std::vector<uint8_t> bytes;
    kvc_bytes part;
    std::string key;
    kvc_object object{};
    Value(const char *name, size_t size) : bytes(size, static_cast<uint8_t>(*name)), part{bytes.data(), size}, key(name) {
      object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
    }
  };
  kvc_status put(Value &value, const kvc_call *call = nullptr, kvc_result *result = nullptr) { return kvc_object_put(result, scope, &value.object, 1, nullptr, call, &error); }
  /// Fills the store with what a lease holds.
  LeaseHandle fill() {
    Value value("first", 1500000);
    EXPECT_EQ(put(value), KVC_OK) << error.message;
    auto result = sized<kvc_result>();
    auto options = sized<kvc_object_options>();
    options.flags = KVC_OBJECT_LEASE;
    EXPECT_EQ(kvc_object_exists(&result, scope, &value.object, 1, &options, nullptr, &error), KVC_OK) << error.message;
    return LeaseHandle(result.lease);
  }
  /// Lets the store's threads, if it has any, get to whatever they will do.
  void settle() {
    if (!GetParam()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  std::map<int32_t, int32_t> tokens;
};
INSTANTIATE_TEST_SUITE_P(, QueueTime, testing::Bool(), [](const auto &param) { return param.param ? "host_driven" : "threads"; });

TEST_P(QueueTime, a_call_that_was_not_started_by_its_deadline_gives_TIMEOUT_and_does_nothing) {
  SeqHandle seq = create();
  const kvc_call call = queued(queue, 5, KVC_CALL_MORE, 3000);
  ASSERT_EQ(append_one(seq, 1, &call), KVC_OK) << error.message;
  clock.advance_ms(3);
  const auto results = drain_until(queue, 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].status, KVC_ERR_TIMEOUT);
  EXPECT_EQ(results[0].user, 5u);
  EXPECT_EQ(results[0].operation, static_cast<uint32_t>(KVC_OP_APPEND));
  EXPECT_EQ(results[0].retry, static_cast<uint32_t>(KVC_RETRY_LATER));
  EXPECT_NE(std::string(results[0].message).find("deadline"), std::string::npos);
  EXPECT_EQ(given(seq), 0u);
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, store, &error), KVC_OK);
  EXPECT_EQ(metrics.timeouts, 1u);
}

TEST_P(QueueTime, without_a_timeout_of_its_own_a_call_has_that_of_the_store_and_with_FOREVER_none) {
  SeqHandle one = create(), two = create();
  const kvc_call own = queued(queue, 1, KVC_CALL_MORE), none = queued(queue, 2, KVC_CALL_MORE, KVC_FOREVER);
  ASSERT_EQ(append_one(one, 1, &own), KVC_OK);
  ASSERT_EQ(append_one(two, 1, &none), KVC_OK);
  clock.advance_ms(5000);
  for (const kvc_result &r : drain_until(queue, 2)) EXPECT_EQ(r.status, r.user == 1 ? KVC_ERR_TIMEOUT : KVC_OK) << r.user;
}

TEST_P(QueueTime, a_blocking_call_starts_what_is_held_back_on_its_sequence_and_acts_behind_it) {
  SeqHandle seq = create();
  QueueHandle other = make_queue(store);
  const kvc_call first = queued(queue, 1, KVC_CALL_MORE), second = queued(other, 2, KVC_CALL_MORE);
  ASSERT_EQ(append_one(seq, 1, &first), KVC_OK);
  ASSERT_EQ(append_one(seq, 2, &second), KVC_OK);
  EXPECT_EQ(given(seq), 2u);
  ASSERT_EQ(append_one(seq, 3, nullptr), KVC_OK) << error.message;
  EXPECT_EQ(given(seq), 3u);
  EXPECT_EQ(drain(queue).size(), 1u);
  EXPECT_EQ(drain(other).size(), 1u);
}

TEST_P(QueueTime, a_queued_call_starts_what_is_held_back_on_its_sequence_in_another_queue) {
  SeqHandle seq = create();
  QueueHandle other = make_queue(store);
  const kvc_call held = queued(queue, 1, KVC_CALL_MORE), now = queued(other, 2);
  ASSERT_EQ(append_one(seq, 1, &held), KVC_OK);
  ASSERT_EQ(append_one(seq, 2, &now), KVC_OK);
  EXPECT_EQ(drain_until(other, 1)[0].status, KVC_OK);
  const auto before = drain(queue);
  ASSERT_EQ(before.size(), 1u) << "it ran first";
  EXPECT_EQ(before[0].status, KVC_OK);
}

TEST_P(QueueTime, a_call_that_would_be_FULL_waits_until_a_lease_is_released) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value more("more", 1000000);
  const kvc_call call = queued(queue, 7);
  ASSERT_EQ(put(more, &call), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u) << "it waits";
  lease.reset();
  const auto results = drain_until(queue, 1);
  EXPECT_EQ(results[0].status, KVC_OK) << results[0].message;
  EXPECT_EQ(results[0].done, 1u);
  EXPECT_EQ(results[0].bytes, 1000000u) << "of the run that succeeded alone";
  EXPECT_EQ(more.object.status, KVC_OK);
}

TEST_P(QueueTime, a_call_that_would_be_FULL_waits_until_a_lease_lapses_by_the_clock) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value more("more", 1000000);
  const kvc_call call = queued(queue, 7);
  ASSERT_EQ(put(more, &call), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u);
  clock.advance_ms(1001);
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
}

TEST_P(QueueTime, who_waited_for_room_until_its_deadline_is_FULL) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value more("more", 1000000);
  kvc_call call = queued(queue, 7, 0, 500000);
  ASSERT_EQ(put(more, &call), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u);
  clock.advance_ms(500);
  const auto results = drain_until(queue, 1);
  EXPECT_EQ(results[0].status, KVC_ERR_FULL);
  EXPECT_NE(std::string(results[0].message).find("bytes are needed"), std::string::npos) << results[0].message;
  EXPECT_EQ(more.object.status, KVC_ERR_FULL);
}

TEST_P(QueueTime, a_call_that_can_never_have_room_does_not_wait) {
  reopen(KVC_OPEN_WAIT);
  Value more("more", 5000000);
  const kvc_call call = queued(queue, 7);
  EXPECT_EQ(put(more), KVC_ERR_FULL);
  ASSERT_EQ(put(more, &call), KVC_OK);
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_ERR_FULL);
}

TEST_P(QueueTime, a_call_that_waits_for_room_does_not_keep_others_from_running_and_what_they_free_wakes_it) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  std::vector<std::unique_ptr<Value>> values;
  const kvc_call call = queued(queue, 1);
  for (int i = 0; i < 8; i++) {  // more than there are threads
    values.push_back(std::make_unique<Value>(("more" + std::to_string(i)).c_str(), 1000000));
    ASSERT_EQ(put(*values.back(), &call), KVC_OK);
  }
  SeqHandle seq = create();
  const kvc_call other = queued(queue, 2);
  ASSERT_EQ(append_one(seq, 1, &other), KVC_OK);
  const auto first = drain_until(queue, 1);
  EXPECT_EQ(first[0].user, 2u);
  EXPECT_EQ(first[0].status, KVC_OK);
  lease.reset();
  for (const kvc_result &r : drain_until(queue, 8)) EXPECT_EQ(r.status, KVC_OK) << r.message;
}

TEST_P(QueueTime, a_blocking_call_waits_for_room_too) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value more("more", 1000000);
  auto result = sized<kvc_result>();
  std::thread releasing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lease.reset();
  });
  EXPECT_EQ(put(more, nullptr, &result), KVC_OK) << error.message;
  releasing.join();
  EXPECT_EQ(result.bytes, 1000000u);
  EXPECT_EQ(result.done, 1u);
}

TEST_P(QueueTime, a_blocking_call_that_waits_runs_on_a_host_driven_store_what_frees_the_room) {
  reopen(KVC_OPEN_WAIT, 2000);  // one open chunk
  SeqHandle first = create(), second = create();
  const auto prompt = ids(16);
  Rows one(1), rest(15), other(1);
  const kvc_rows begin = one.describe(0), end = rest.describe(1), more = other.describe(0);
  ASSERT_EQ(kvc_append(first, prompt.data(), 16, &begin, 1, nullptr, &error), KVC_OK) << error.message;
  auto now = sized<kvc_call>();
  now.timeout_us = KVC_FOREVER;
  const kvc_call call = queued(queue, 1, KVC_CALL_MORE);
  ASSERT_EQ(kvc_append(first, nullptr, 0, &end, 1, &call, &error), KVC_OK);
  ASSERT_EQ(kvc_queue_submit(queue, &error), KVC_OK);
  ASSERT_EQ(kvc_append(second, prompt.data(), 1, &more, 1, &now, &error), KVC_OK) << "when the first one's chunk is sealed: " << error.message;
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
}

TEST_P(QueueTime, a_blocking_call_gives_up_at_its_deadline_when_those_before_it_on_its_sequence_wait) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  SeqHandle seq = create();
  const size_t count = 16 * 1500;  // chunks for which there is no room
  const auto prompt = ids(count);
  Rows in(count);
  const kvc_rows rows = in.fill(1, 0).describe(0);
  const kvc_call call = queued(queue, 1, 0, KVC_FOREVER);
  ASSERT_EQ(kvc_append(seq, prompt.data(), count, &rows, 1, &call, &error), KVC_OK) << error.message;
  std::thread ticking([&] {
    for (int i = 0; i < 100; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      clock.advance_ms(1);
    }
  });
  auto soon = sized<kvc_call>();
  soon.timeout_us = 20000;
  EXPECT_EQ(append_one(seq, 1, &soon), KVC_ERR_TIMEOUT);
  EXPECT_NE(error.text().find("queued calls"), std::string::npos) << error.message;
  const kvc_call behind = queued(queue, 2, 0, 20000);
  ASSERT_EQ(kvc_append(seq, prompt.data(), 1, nullptr, 0, &behind, &error), KVC_OK);
  ticking.join();
  const auto late = drain_until(queue, 1);
  EXPECT_EQ(late[0].user, 2u);
  EXPECT_EQ(late[0].status, KVC_ERR_TIMEOUT) << "it does not wait for the one before it";
  lease.reset();
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
  EXPECT_EQ(given(seq), count);
}

TEST(QueueEvents, the_descriptor_is_readable_while_events_wait_too) {
  StoreHandle store = open_with({}, Host::options_of(2u << 20, KVC_OPEN_HOST_DRIVEN));
  QueueHandle queue = make_queue(store);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, nullptr), KVC_OK);
  kvc::store::QueueUse use;
  kvc::base::Error error;
  ASSERT_EQ(use.enter(kvc::base::token_unpack(reinterpret_cast<uint64_t>(static_cast<kvc_queue *>(queue))), error), KVC_OK);
  use.store().queues().set_events(use.queue(), true);
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(drain(queue).size(), 0u);
  EXPECT_TRUE(readable(fd)) << "events are not results";
  use.store().queues().set_events(use.queue(), false);
  EXPECT_FALSE(readable(fd));
}

TEST(QueueClock, threads_of_kvc_see_that_a_deadline_passes_while_nobody_drains) {
  kvc::base::ManualClock clock;
  StoreHandle store = open_with({.clock = &clock}, Host::options_of(2u << 20));
  ScopeHandle scope = make_scope(store, "test", {});
  QueueHandle queue = make_queue(store);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, nullptr), KVC_OK);
  kvc_object object{};
  object.key = "k", object.key_size = 1;
  const kvc_call call = queued(queue, 1, KVC_CALL_MORE, 1000000);
  ASSERT_EQ(kvc_object_delete(nullptr, scope, &object, 1, &call, nullptr), KVC_OK);
  EXPECT_FALSE(readable(fd));
  clock.advance_ms(1000);
  pollfd p = {fd, POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 20000), 1);
  const auto results = drain(queue);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].status, KVC_ERR_TIMEOUT);
  EXPECT_EQ(object.status, KVC_ERR_TIMEOUT);
}

}  // namespace
