#include <condition_variable>
#include <mutex>
#include <thread>

#include "../api/queue_host.h"
#include "../io/memory_files.h"
#include "base/clock.h"
#include "seam_store.h"

/// Deadlines of queued calls, calls that wait for them, and room that is waited for: by a clock that moves when told to.
namespace {

using namespace kvc_test;

/// A disk that counts the files that were asked for, and lets so many of them be opened.
struct GatedFiles final : MemoryFiles {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t asked = 0, open_max = UINT64_MAX;

  int open_file(int *fd, const char *path) override {
    std::unique_lock lock(mutex);
    const uint64_t mine = ++asked;
    changed.notify_all();
    changed.wait(lock, [&] { return mine <= open_max; });
    return MemoryFiles::open_file(fd, path);
  }
  void allow(uint64_t count) {
    const std::lock_guard lock(mutex);
    open_max = count;
    changed.notify_all();
  }
  void wait_asked(uint64_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked >= count; });
  }
};

struct QueueTime : testing::TestWithParam<bool> {
  kvc::base::ManualClock clock;
  GatedFiles files;
  StoreHandle store = open(0);
  ScopeHandle scope = make_scope(store, "test", {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  QueueHandle queue = make_queue(store);
  ErrorText error;

  StoreHandle open(uint32_t flags, uint64_t open_bytes_max = 2u << 20) {
    kvc_store_options options = Host::options_of(2u << 20, flags | (GetParam() ? static_cast<uint32_t>(KVC_OPEN_HOST_DRIVEN) : 0));
    options.open_bytes_max = open_bytes_max, options.worker_count = 2, options.timeout_us = 5000000, options.lease_ms = 1000;
    return open_with({.clock = &clock, .files = &files}, options);
  }
  ScopeHandle limited_scope(uint64_t bytes_max) {
    const kvc_layer layer = full_layers(1, 1, 8, 8);
    auto shape = sized<kvc_shape>();
    shape.dtype = KVC_F16, shape.chunk_tokens = 16, shape.layers = &layer, shape.layer_runs = 1;
    auto options = sized<kvc_scope_options>();
    options.model = "test", options.shape = &shape, options.bytes_max = bytes_max;
    ScopeHandle out;
    EXPECT_EQ(kvc_scope_create(out.out(), store, &options, &error), KVC_OK) << error.message;
    return out;
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

TEST_P(QueueTime, the_result_of_a_call_that_waited_is_that_of_its_last_run) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value small("small", 10), more("more", 1000000);
  std::array<kvc_object, 2> items{small.object, more.object};
  const kvc_call call = queued(queue, 7);
  ASSERT_EQ(kvc_object_put(nullptr, scope, items.data(), 2, nullptr, &call, &error), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u) << "it waits";
  lease.reset();
  const kvc_result result = drain_until(queue, 1)[0];
  EXPECT_EQ(result.status, KVC_OK);
  EXPECT_EQ(result.done, 2u);
  EXPECT_EQ(result.bytes, 1000010u);
  EXPECT_EQ(result.retry, 0u);
  EXPECT_STREQ(result.message, "");
  EXPECT_EQ(result.user, 7u);
  EXPECT_EQ(result.operation, static_cast<uint32_t>(KVC_OP_OBJECT_PUT));
}

TEST_P(QueueTime, a_call_that_is_cancelled_while_it_waits_for_room_says_that_alone) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  Value more("more", 1000000);
  const kvc_call call = queued(queue, 7);
  ASSERT_EQ(put(more, &call), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u) << "it waits";
  ASSERT_EQ(kvc_queue_cancel(queue, 7, &error), KVC_OK) << error.message;
  const kvc_result result = drain_until(queue, 1)[0];
  EXPECT_EQ(result.status, KVC_ERR_CANCELLED);
  EXPECT_STREQ(result.message, "kvc_queue_cancel");
}

TEST_P(QueueTime, a_call_that_waits_for_room_is_not_run_again_before_there_may_be_some) {
  reopen(KVC_OPEN_WAIT);
  SeqHandle seq = create();
  const size_t count = 16 * 900;
  const auto prompt = ids(count);
  Rows in(count);
  const kvc_rows rows = in.fill(1, 0).describe(0);
  ASSERT_EQ(kvc_append(seq, prompt.data(), count, &rows, 1, nullptr, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_seq_save(seq, "disk/saved", nullptr, &error), KVC_OK) << error.message;
  seq.reset();
  ASSERT_EQ(kvc_scope_clear(nullptr, scope, nullptr, &error), KVC_OK) << error.message;
  LeaseHandle lease = fill();
  const kvc_call call = queued(queue, 1, 0, KVC_FOREVER);
  ASSERT_EQ(kvc_seq_restore(nullptr, scope, "disk/saved", nullptr, &call, &error), KVC_OK) << error.message;
  files.wait_asked(GetParam() ? 0 : 2);
  for (int i = 0; i < 4; i++) EXPECT_EQ(drain(queue, 20000).size(), 0u);
  const uint64_t runs = files.asked;
  for (int i = 0; i < 4; i++) EXPECT_EQ(drain(queue, 20000).size(), 0u);
  if (GetParam()) {  // else a thread may have looked amid a run
    EXPECT_EQ(files.asked, runs) << "nothing was released and no lease lapsed";
  }
  clock.advance_ms(1001);
  const kvc_result result = drain_until(queue, 1)[0];
  EXPECT_EQ(result.status, KVC_OK) << result.message;
  SeqHandle restored(result.seq);
  EXPECT_EQ(given(restored), count);
}

TEST_P(QueueTime, a_call_that_waits_for_its_quota_goes_on_when_that_is_raised) {
  reopen(KVC_OPEN_WAIT);
  LeaseHandle lease = fill();
  scope = limited_scope(1600000);
  Value more("more", 200000);
  const kvc_call call = queued(queue, 1);
  ASSERT_EQ(put(more, &call), KVC_OK) << error.message;
  settle();
  EXPECT_EQ(drain(queue).size(), 0u);
  scope = limited_scope(1900000);
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
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
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, store, &error), KVC_OK);
  EXPECT_EQ(metrics.timeouts, 0u) << "it did not end in KVC_ERR_TIMEOUT";
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

struct QueueEvents : testing::Test {
  StoreHandle store = open_with({}, Host::options_of(2u << 20, KVC_OPEN_HOST_DRIVEN));
  QueueHandle queue = make_queue(store);
  int fd = -1;
  kvc::store::QueueUse use;

  void SetUp() override {
    kvc::base::Error error;
    ASSERT_EQ(kvc_queue_fd(&fd, queue, nullptr), KVC_OK);
    ASSERT_EQ(use.enter(kvc::base::token_unpack(reinterpret_cast<uint64_t>(static_cast<kvc_queue *>(queue))), error), KVC_OK);
  }
};

TEST_F(QueueEvents, the_descriptor_is_readable_while_events_wait_too) {
  use.store().queues().set_events(use.queue(), true);
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(drain(queue).size(), 0u);
  EXPECT_TRUE(readable(fd)) << "events are not results";
  use.store().queues().set_events(use.queue(), false);
  EXPECT_FALSE(readable(fd));
}

TEST_F(QueueEvents, events_are_seen_while_another_thread_waits_in_a_drain) {
  auto options = sized<kvc_scope_options>();
  options.model = "test";
  ScopeHandle scope;
  ASSERT_EQ(kvc_scope_create(scope.out(), store, &options, nullptr), KVC_OK);
  kvc::store::Queues &queues = use.store().queues();
  std::thread draining([&] { EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK); });
  while (!queues.is_drained(use.queue())) std::this_thread::yield();
  queues.set_events(use.queue(), true);
  EXPECT_TRUE(readable(fd));
  queues.set_events(use.queue(), false);
  EXPECT_FALSE(readable(fd));
  queues.set_events(use.queue(), true);
  const kvc_call call = queued(queue, 1);
  ASSERT_EQ(kvc_scope_clear(nullptr, scope, &call, nullptr), KVC_OK);
  draining.join();
  EXPECT_TRUE(readable(fd)) << "the drain took results, not events";
  use.leave();
}

/// The system's time, by a clock that says it does not leap.
struct RunningClock final : kvc::base::Clock {
  uint64_t now_ns() const override { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }
  bool leaps() const override { return false; }
};

TEST(QueueClock, a_deadline_that_is_earlier_than_all_before_it_is_kept_by_a_thread_that_sleeps_until_those) {
  RunningClock clock;
  kvc::store::Seams seams;
  seams.clock = &clock;
  StoreHandle store = open_with(seams, Host::options_of(2u << 20));
  auto options = sized<kvc_scope_options>();
  options.model = "test";
  ScopeHandle scope;
  ASSERT_EQ(kvc_scope_create(scope.out(), store, &options, nullptr), KVC_OK);
  QueueHandle first = make_queue(store), second = make_queue(store);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, second, nullptr), KVC_OK);
  const kvc_call late = queued(first, 1, KVC_CALL_MORE, KVC_FOREVER), soon = queued(second, 2, KVC_CALL_MORE, 1000);
  ASSERT_EQ(kvc_scope_clear(nullptr, scope, &late, nullptr), KVC_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until a thread sleeps, if it is not late
  ASSERT_EQ(kvc_scope_clear(nullptr, scope, &soon, nullptr), KVC_OK);
  pollfd p = {fd, POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 20000), 1);
  EXPECT_EQ(drain(second)[0].status, KVC_ERR_TIMEOUT);
}

TEST(QueueClock, a_deadline_that_passes_while_all_threads_work_is_told_when_one_of_them_ends_a_call) {
  kvc::base::ManualClock clock;
  GatedFiles files;
  files.open_max = 0;
  kvc::store::Seams seams;
  seams.clock = &clock, seams.files = &files;
  auto store_options = Host::options_of(2u << 20);
  store_options.worker_count = 1;
  StoreHandle store = open_with(seams, store_options);
  const kvc_layer layer = full_layers(1, 1, 8, 8);
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  auto options = sized<kvc_scope_options>();
  options.model = "test", options.shape = &shape;
  ScopeHandle scope;
  ASSERT_EQ(kvc_scope_create(scope.out(), store, &options, nullptr), KVC_OK);
  QueueHandle busy = make_queue(store), other = make_queue(store);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, other, nullptr), KVC_OK);
  const kvc_call load = queued(busy, 1, 0, KVC_FOREVER), held = queued(other, 2, KVC_CALL_MORE, 1000000);
  for (int i = 0; i < 2; i++) ASSERT_EQ(kvc_seq_restore(nullptr, scope, "disk/absent", nullptr, &load, nullptr), KVC_OK);
  files.wait_asked(1);
  ASSERT_EQ(kvc_scope_clear(nullptr, scope, &held, nullptr), KVC_OK);
  clock.advance_ms(1000);
  files.allow(1);
  files.wait_asked(2);
  EXPECT_TRUE(readable(fd));
  files.allow(2);
  EXPECT_EQ(drain_until(other, 1)[0].status, KVC_ERR_TIMEOUT);
  EXPECT_EQ(drain_until(busy, 2).size(), 2u);
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
