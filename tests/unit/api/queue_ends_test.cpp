#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <thread>

#include "../store/seam_store.h"
#include "base/fault.h"
#include "queue_host.h"

/// Queues that end while work is in flight, in a child, or before they began.
namespace {

using namespace kvc_test;

struct Busy {
  Host host;
  QueueHandle queue;
  std::vector<std::vector<uint8_t>> values;
  std::vector<kvc_bytes> parts;
  std::vector<kvc_object> objects;
  std::vector<std::string> keys;

  explicit Busy(uint32_t workers, size_t count = 64) : host(options_of(workers), {full_layers(1, 1, 8, 8)}, KVC_F16, 16), queue(make_queue(host.store)), parts(count), objects(count) {
    for (size_t i = 0; i < count; i++) {
      values.emplace_back(200000, static_cast<uint8_t>(i));
      keys.push_back("key" + std::to_string(i));
    }
  }
  static kvc_store_options options_of(uint32_t workers) {
    auto options = Host::options_of(64u << 20);
    options.worker_count = workers;
    return options;
  }
  void put_all() {
    for (size_t i = 0; i < objects.size(); i++) {
      parts[i] = {values[i].data(), values[i].size()};
      objects[i] = {};
      objects[i].key = keys[i].data(), objects[i].key_size = keys[i].size(), objects[i].parts = &parts[i], objects[i].part_count = 1;
      const kvc_call call = queued(queue, i);
      ASSERT_EQ(kvc_object_put(nullptr, host.scope, &objects[i], 1, nullptr, &call, nullptr), KVC_OK);
    }
  }
  /// Every item was settled, and lent memory is free: it is unmapped for good before anything could run late.
  void expect_settled() {
    for (size_t i = 0; i < objects.size(); i++) EXPECT_TRUE(objects[i].status == KVC_OK || objects[i].status == KVC_ERR_CANCELLED) << i << ": " << objects[i].status;
    values.clear();
    values.shrink_to_fit();
  }
};

TEST(QueueEnds, a_queue_is_released_while_its_calls_run) {
  for (int round = 0; round < 20; round++) {
    Busy busy(3);
    busy.put_all();
    if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    busy.queue.reset();
    busy.expect_settled();
  }
}

TEST(QueueEnds, a_store_is_closed_while_calls_of_two_queues_run) {
  for (int round = 0; round < 20; round++) {
    Busy busy(3);
    QueueHandle other = make_queue(busy.host.store);
    SeqHandle seq = busy.host.create();
    const auto tokens = ids(200);
    for (int i = 0; i < 200; i++) {
      const kvc_call call = queued(other, 1, i % 2 ? static_cast<uint32_t>(KVC_CALL_MORE) : 0);
      ASSERT_EQ(kvc_append(seq, &tokens[i], 1, nullptr, 0, &call, nullptr), KVC_OK);
    }
    busy.put_all();
    if (round % 3 == 1) {
      ASSERT_EQ(kvc_seq_release(seq, nullptr), KVC_OK);
    }
    ASSERT_EQ(kvc_close(busy.host.store.release(), nullptr), KVC_OK);
    busy.expect_settled();
    EXPECT_EQ(kvc_queue_release(busy.queue.release(), nullptr), KVC_ERR_STALE);
    EXPECT_EQ(kvc_queue_release(other.release(), nullptr), KVC_ERR_STALE);
    EXPECT_EQ(kvc_seq_release(seq.release(), nullptr), KVC_ERR_STALE);
    EXPECT_EQ(kvc_scope_release(busy.host.scope.release(), nullptr), KVC_ERR_STALE);
  }
}

TEST(QueueEnds, results_that_nobody_drained_end_with_the_store_and_what_they_gave_too_and_a_late_drain_writes_nothing) {
  for (int round = 0; round < 5; round++) {
    Host host({full_layers(1, 1, 8, 8)}, KVC_F16, 16);
    QueueHandle queue = make_queue(host.store);
    SeqHandle seq = host.create();
    const auto prompt = ids(64);
    Rows in(64), out(64);
    ASSERT_EQ(host.append(seq, prompt, {in.fill(1, 0).describe(0)}), KVC_OK) << host.error.message;
    auto info = sized<kvc_match_info>();
    const kvc_call call = queued(queue);
    kvc_rows rows = out.describe(0);
    ASSERT_EQ(kvc_match(nullptr, &info, host.scope, prompt.data(), 64, nullptr, &call, &host.error), KVC_OK) << host.error.message;
    ASSERT_EQ(kvc_seq_lease(nullptr, seq, 0, KVC_ALL, KVC_FOREVER, &call, &host.error), KVC_OK) << host.error.message;
    ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &host.error), KVC_OK) << host.error.message;
    for (uint64_t alive = 0; round % 2 && alive < 2;) {  // now and then all of them are through
      auto held = sized<kvc_store_info>();
      ASSERT_EQ(kvc_store_get_info(&held, host.store, &host.error), KVC_OK) << host.error.message;
      alive = std::min<uint64_t>(held.seq_count, held.lease_count + 1);
    }
    ASSERT_EQ(kvc_close(host.store.release(), &host.error), KVC_OK) << host.error.message;
    (void)seq.release(), (void)host.scope.release();
    const std::vector<uint16_t> before = out.k;
    std::vector<uint8_t> results = poisoned(4 * sizeof(kvc_result));
    reinterpret_cast<kvc_result *>(results.data())->size = sizeof(kvc_result);
    const std::vector<uint8_t> was = results;
    size_t count = 0;
    EXPECT_EQ(kvc_queue_drain(reinterpret_cast<kvc_result *>(results.data()), 4, &count, queue, 1000, nullptr), KVC_ERR_STALE);
    EXPECT_EQ(count, 0u);
    EXPECT_TRUE(results == was);
    EXPECT_EQ(kvc_queue_release(queue.release(), nullptr), KVC_ERR_STALE);
    EXPECT_TRUE(out.k == before) << "lent memory is the host's again";
  }
}

TEST(QueueEnds, those_who_drain_a_queue_and_call_with_it_meanwhile_find_it_stale) {
  for (int round = 0; round < 20; round++) {
    Busy busy(2, 8);
    std::atomic<int> results{0}, stale{0};
    std::vector<std::thread> threads;
    kvc_queue *queue = busy.queue;
    for (int t = 0; t < 4; t++)
      threads.emplace_back([&] {
        for (;;) {
          kvc_result result[4];
          KVC_INIT(&result[0]);
          size_t count = 0;
          const kvc_status status = kvc_queue_drain(result, 4, &count, queue, KVC_FOREVER, nullptr);
          results += static_cast<int>(count);
          if (status == KVC_OK) {
            EXPECT_GT(count, 0u) << "who waits for ever comes back with something";
            continue;
          }
          EXPECT_EQ(status, KVC_ERR_STALE);
          stale++;
          return;
        }
      });
    std::atomic<int> taken{0};
    std::deque<kvc_object> lent;  // untouched from their calls on, until the queue is released
    threads.emplace_back([&] {
      const kvc_call call = queued(queue);
      kvc_status status = KVC_OK;
      while (status == KVC_OK || status == KVC_ERR_BUSY) {
        if (status == KVC_OK) lent.push_back({}), lent.back().key = "k", lent.back().key_size = 1;
        else std::this_thread::yield();
        status = kvc_object_exists(nullptr, busy.host.scope, &lent.back(), 1, nullptr, &call, nullptr);
        taken += status == KVC_OK;
      }
      EXPECT_EQ(status, KVC_ERR_STALE);
      stale++;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 5));
    busy.queue.reset();
    for (std::thread &t : threads) t.join();
    EXPECT_EQ(stale, 5);
    EXPECT_LE(results, taken);
  }
}

TEST(QueueEnds, a_call_is_found_by_its_user_also_while_it_is_begun_again_for_room) {
  auto options = Host::options_of(2u << 20, KVC_OPEN_WAIT);
  options.worker_count = 2;
  Host host(options, {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  QueueHandle queue = make_queue(host.store);
  std::vector<uint8_t> value(1500000, 1);
  kvc_bytes part{value.data(), value.size()};
  kvc_object held{};
  held.key = "held", held.key_size = 4, held.parts = &part, held.part_count = 1;
  ASSERT_EQ(kvc_object_put(nullptr, host.scope, &held, 1, nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  auto result = sized<kvc_result>();
  auto leased = sized<kvc_object_options>();
  leased.flags = KVC_OBJECT_LEASE, leased.lease_ms = KVC_FOREVER;
  ASSERT_EQ(kvc_object_exists(&result, host.scope, &held, 1, &leased, nullptr, &host.error), KVC_OK) << host.error.message;
  LeaseHandle lease(result.lease);
  const auto prompt = ids(16 * 900);  // long enough that a run takes its time
  Rows in(prompt.size());
  const kvc_rows rows = in.describe(0);
  std::atomic<bool> done{false};
  std::thread releases([&] {
    SeqHandle seq = host.create();
    while (!done) EXPECT_EQ(kvc_seq_truncate(seq, 0, nullptr), KVC_OK);  // whoever waits for room looks again
  });
  for (uint64_t user = 1; user <= 40; user++) {
    const kvc_call call = queued(queue, user, 0, KVC_FOREVER);
    SeqHandle seq = host.create();
    ASSERT_EQ(kvc_append(seq, prompt.data(), prompt.size(), &rows, 1, &call, nullptr), KVC_OK);
    for (int i = 0; i < 500; i++) EXPECT_EQ(kvc_queue_cancel(queue, user + 1, nullptr), KVC_ERR_NOT_FOUND);
    EXPECT_EQ(kvc_queue_cancel(queue, user, nullptr), KVC_OK);
    const kvc_result came = drain_until(queue, 1)[0];
    EXPECT_EQ(came.user, user);
    EXPECT_TRUE(came.status == KVC_ERR_CANCELLED || came.status == KVC_ERR_FULL) << came.message;
  }
  done = true;
  releases.join();
}

TEST(QueueEnds, a_descriptor_that_cannot_be_written_or_read_loses_no_result_and_tells_of_those_that_come_later) {
  Host host({full_layers(1, 1, 8, 8)}, KVC_F16, 0, 4u << 20, KVC_OPEN_HOST_DRIVEN);
  QueueHandle queue = make_queue(host.store);
  int fd = -1;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, nullptr), KVC_OK);
  kvc_object object{};
  object.key = "k", object.key_size = 1;
  const auto run_one = [&] {
    const kvc_call call = queued(queue, 6);
    EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &object, 1, nullptr, &call, nullptr), KVC_OK);
    for (uint32_t more = 1; more;) ASSERT_EQ(kvc_store_step(&more, host.store, 1000, &host.error), KVC_OK) << host.error.message;
  };
  const auto take_one = [&] { EXPECT_EQ(drain(queue).size(), 1u); };
  const uint64_t most = UINT64_MAX - 1;
  ASSERT_EQ(write(fd, &most, sizeof most), static_cast<ssize_t>(sizeof most));  // a host that wrote to it as much as goes
  run_one();
  take_one();
  EXPECT_FALSE(readable(fd));
#ifdef KVC_FAULTS
  ASSERT_TRUE(kvc::base::fault_arm("queue.event.write", 1, UINT64_MAX));
  run_one();
  EXPECT_FALSE(readable(fd));
  take_one();
  kvc::base::fault_disarm_all();
  run_one();
  ASSERT_TRUE(kvc::base::fault_arm("queue.event.write", 1, UINT64_MAX));
  take_one();
  EXPECT_TRUE(readable(fd)) << "it was not read";
  EXPECT_TRUE(drain(queue).empty());
  kvc::base::fault_disarm_all();
#endif
  run_one();
  EXPECT_TRUE(readable(fd));
  take_one();
  EXPECT_FALSE(readable(fd));
}

TEST(QueueEnds, in_a_child_every_queue_is_forked_and_the_parent_goes_on) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends a child that starts a thread";
#endif
  Busy busy(2);
  busy.put_all();
  const pid_t child = fork();
  if (child == 0) {
    kvc_result result;
    KVC_INIT(&result);
    size_t count;
    int fd;
    kvc_object object{};
    object.key = "k", object.key_size = 1;
    const kvc_call call = queued(busy.queue);
    const bool forked = kvc_queue_drain(&result, 1, &count, busy.queue, 0, nullptr) == KVC_ERR_FORKED && kvc_queue_fd(&fd, busy.queue, nullptr) == KVC_ERR_FORKED &&
                        kvc_object_exists(nullptr, busy.host.scope, &object, 1, nullptr, &call, nullptr) == KVC_ERR_FORKED &&
                        kvc_queue_release(busy.queue, nullptr) == KVC_ERR_FORKED && kvc_close(busy.host.store, nullptr) == KVC_ERR_FORKED;
    kvc_store *own = nullptr;
    auto options = Host::options_of(2u << 20);
    const bool works = kvc_open(&own, "mem:", &options, nullptr) == KVC_OK && kvc_queue_create(const_cast<kvc_queue **>(&call.queue), own, nullptr, nullptr) == KVC_OK && kvc_close(own, nullptr) == KVC_OK;
    _exit(forked && works ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(drain_until(busy.queue, 64).size(), 64u);
  busy.expect_settled();
}

#ifdef KVC_FAULTS
TEST(QueueEnds, what_the_system_refuses_a_queue_leaves_nothing_behind) {
  const struct {
    const char *point;
    kvc_status status;
  } refusals[] = {{"queue.event.create", KVC_ERR_IO}, {"queue.thread.create", KVC_ERR_NO_MEMORY}, {"memory.resource.allocate", KVC_ERR_NO_MEMORY}};
  for (const auto &[point, wanted] : refusals)
    for (uint64_t nth = 1; nth <= 2; nth++) {
      Busy busy(2, 1);
      busy.queue.reset();
      Host fresh(Busy::options_of(2), {}, 0, 0);
      ErrorText error;
      kvc_queue *out = reinterpret_cast<kvc_queue *>(7);
      ASSERT_TRUE(kvc::base::fault_arm(point, nth, 1));
      const kvc_status status = kvc_queue_create(&out, fresh.store, nullptr, &error);
      kvc::base::fault_disarm_all();
      if (nth == 1 || status != KVC_OK) {
        EXPECT_EQ(status, wanted) << point << ": " << error.message;
        EXPECT_EQ(out, nullptr);
        EXPECT_NE(error.text(), "");
      } else {
        EXPECT_EQ(kvc_queue_release(out, nullptr), KVC_OK);
      }
      // Refused again and again it takes no more.
      const auto taken = [&] { return std::pair(internals(fresh.store).metadata().used_bytes(), std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})); };
      const auto before = taken();
      for (int i = 0; nth == 1 && i < 3; i++) {
        ASSERT_TRUE(kvc::base::fault_arm(point, nth, 1));
        EXPECT_EQ(kvc_queue_create(&out, fresh.store, nullptr, &error), wanted);
        kvc::base::fault_disarm_all();
        EXPECT_EQ(taken(), before) << point;
      }
      QueueHandle again = make_queue(fresh.store);
      kvc_object object{};
      object.key = "k", object.key_size = 1;
      const kvc_call call = queued(again);
      ASSERT_EQ(kvc_object_exists(nullptr, fresh.scope, &object, 1, nullptr, &call, &error), KVC_OK) << error.message;
      EXPECT_EQ(drain_until(again, 1)[0].status, KVC_OK);
    }
}

TEST(QueueEnds, a_call_that_is_refused_memory_gives_no_result_and_one_that_runs_out_of_it_gives_that) {
  Host host(Host::options_of(16u << 20, KVC_OPEN_HOST_DRIVEN), {full_layers(1, 1, 8, 8)}, KVC_F16, 16);
  QueueHandle queue = make_queue(host.store, 2);
  SeqHandle seq = host.create();
  ErrorText error;
  const auto tokens = ids(100);
  std::vector<int32_t> table(2000);
  Rows rows(1);
  kvc_rows read = rows.describe(0);
  read.block_tokens = 1, read.blocks = table.data(), read.block_count = table.size();
  const kvc_call call = queued(queue, 1);
  for (uint64_t nth = 1;; nth++) {
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
    const kvc_status status = kvc_gather(nullptr, seq, &read, 1, &call, &error);
    kvc::base::fault_disarm_all();
    if (status == KVC_OK) {
      EXPECT_GE(nth, 3u) << "a place for the call, and its table";
      break;
    }
    EXPECT_EQ(status, KVC_ERR_NO_MEMORY) << error.message;
    EXPECT_EQ(drain(queue).size(), 0u);
  }
  EXPECT_EQ(drain(queue)[0].status, KVC_ERR_RANGE) << "nothing is appended";
  for (int i = 0; i < 3; i++) {  // a place is there now: its table is what is refused
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", 1, 1));
    EXPECT_EQ(kvc_gather(nullptr, seq, &read, 1, &call, &error), KVC_ERR_NO_MEMORY) << error.message;
    kvc::base::fault_disarm_all();
  }
  for (int i = 0; i < 2; i++) ASSERT_EQ(kvc_append(seq, tokens.data(), 1, nullptr, 0, &call, &error), KVC_OK) << "refused calls are not in flight: " << error.message;
  EXPECT_EQ(drain(queue).size(), 2u);
  ASSERT_EQ(kvc_append(seq, tokens.data(), 100, nullptr, 0, &call, &error), KVC_OK);
  ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", 1, 1));
  const auto results = drain(queue);
  kvc::base::fault_disarm_all();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].status, KVC_ERR_NO_MEMORY) << results[0].message;
  EXPECT_EQ(results[0].retry, static_cast<uint32_t>(KVC_RETRY_LATER));
}
#endif

}  // namespace
