// Threads over the whole surface of one store that holds a part of what they write, with a clock that lets leases lapse: every element that is read is
// the one that its tokens make, and in the end nothing is held.
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "store/seam_store.h"
#include "worker.h"

namespace kvc::stress {
namespace {

using namespace kvc_test;

// What a run costs in each build.
#ifdef KVC_LONG_TESTS
constexpr uint64_t kFactor = 100;
#else
constexpr uint64_t kFactor = 1;
#endif
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kSteps = 1500 * kFactor;
constexpr int kThreads = 3;
#elif defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSteps = 1500 * kFactor;
constexpr int kThreads = 4;
#else
constexpr uint64_t kSteps = 5000 * kFactor;
constexpr int kThreads = 6;
#endif

struct Ground {
  base::ManualClock clock;
  StoreHandle store;
  ScopeHandle scope;
  ErrorText error;

  explicit Ground(uint64_t memory_bytes, uint32_t flags) {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes;
    options.lease_ms = 300, options.flags = flags;
    store = open_with({.clock = &clock}, options);
    const kvc_shape shape = model::geometries()[0].shape();
    auto names = sized<kvc_scope_options>();
    names.model = "stress", names.shape = &shape;
    EXPECT_EQ(kvc_scope_create(scope.out(), store, &names, &error), KVC_OK) << error.message;
  }
};

void run(uint64_t memory_bytes, uint32_t flags, uint64_t seed) {
  Ground ground(memory_bytes, flags);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kThreads; i++) workers.push_back(std::make_unique<Worker>(ground.store, ground.scope, seed * 100 + static_cast<uint64_t>(i)));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (auto &worker : workers)
    threads.emplace_back([&stop, &clock = ground.clock, &worker = *worker] {
      bool right = true;
      for (uint64_t i = 0; right && !stop && i < kSteps; i++) {
        clock.advance_ms(1);  // leases lapse by what is done, not by how fast
        right = worker.step();
      }
      if (!(right && worker.end())) stop = true;
    });
  for (std::thread &thread : threads) thread.join();
  std::map<std::string, uint64_t> done;
  for (const auto &worker : workers) {
    ASSERT_EQ(worker->wrong(), "");
    for (const auto &[name, count] : worker->done()) done[name] += count;
  }
  if (kThreads > 4) {  // of fewer sequences what lapses is seldom needed
    EXPECT_GT(done["recovered"], 0u) << "nothing that lapsed was evicted";
  }
  for (const char *name : {"found", "got", "fork", "view", "clear", "renew", "reorder", "compact", "queued"}) EXPECT_GT(done[name], 0u) << name << ": that never happened";
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, ground.store, &ground.error), KVC_OK);
  EXPECT_GT(metrics.evicted_chunks, kSteps / 50) << "there was no pressure";
  EXPECT_GT(metrics.lapsed_leases, 0u);
  EXPECT_EQ(kvc_store_verify(nullptr, ground.store, nullptr, &ground.error), KVC_OK) << ground.error.message;
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, ground.store, &ground.error), KVC_OK);
  EXPECT_EQ(info.memory_pinned + info.seq_count + info.lease_count + info.view_count, 0u);
  ASSERT_EQ(kvc_scope_clear(nullptr, ground.scope, nullptr, &ground.error), KVC_OK);
  ASSERT_EQ(kvc_store_get_info(&info, ground.store, &ground.error), KVC_OK);
  EXPECT_EQ(info.memory_used + info.chunk_count + info.object_count, 0u);
}

TEST(Stress, WhatThreadsReadOfAStoreThatEvictsAllTheTimeIsWhatTheTokensMakeIt) { run(2u << 20, 0, 1); }

TEST(Stress, WithReadsThatAreVerifiedAndMemoryThatIsZeroedToo) { run(2u << 20, KVC_OPEN_VERIFY_READS | KVC_OPEN_ZERO, 2); }

}  // namespace
}  // namespace kvc::stress
