#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "memory/slab.h"

namespace kvc::memory {
namespace {

constexpr int kThreads = 8;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSteps = 5000;
#else
constexpr int kSteps = 50000;
#endif

uint64_t pack(SlotId id) { return uint64_t{id.index} << 32 | id.generation; }
SlotId unpack(uint64_t id) { return {static_cast<uint32_t>(id >> 32), static_cast<uint32_t>(id)}; }

struct Held {
  SlotId id;
  uint64_t stamp;
};

/// Takes and gives at random; returns the number of slots found with another's stamp.
int churn(Slab &slab, unsigned thread, std::atomic<uint64_t> &published) {
  std::mt19937 random(thread);
  std::vector<Held> held;
  int wrong = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (held.empty() || random() % 2) {
      base::Error error;
      SlotId id;
      const uint64_t bytes = 8 + (random() % 16 ? random() % 5000 : random() % 300000);
      if (slab.take(&id, bytes, error) != KVC_OK) continue;
      const uint64_t stamp = uint64_t{thread} << 32 | static_cast<uint64_t>(step);
      memcpy(slab.data(id), &stamp, sizeof stamp);
      held.push_back({id, stamp});
      published.store(pack(id), std::memory_order_relaxed);
    } else {
      std::swap(held[random() % held.size()], held.back());
      uint64_t stamp = 0;
      memcpy(&stamp, slab.data(held.back().id), sizeof stamp);
      wrong += stamp != held.back().stamp;
      slab.give(held.back().id);
      held.pop_back();
    }
  }
  for (const Held &last : held) slab.give(last.id);
  return wrong;
}

TEST(SlabThreads, EightThreadsNeverShareASlotAndReadersOfForeignIdsSeeAPlaceOrNothing) {
  Resource resource;
  Slab slab;
  base::Error error;
  ASSERT_EQ(slab.open({.bytes = uint64_t{16} << 20}, false, resource, error), KVC_OK);
  std::array<std::atomic<uint64_t>, kThreads> published{};
  std::atomic<int> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { wrong += churn(slab, t, published[t]); });
  std::thread reader([&] {
    // Slots go stale while they are looked up: any answer is a whole one.
    for (unsigned i = 0; !stop; ++i) {
      const SlotId id = unpack(published[i % kThreads].load(std::memory_order_relaxed));
      const uint64_t bytes = slab.bytes(id);
      const uint8_t *data = slab.data(id);
      if (bytes > 400000 || (data && reinterpret_cast<uintptr_t>(data) % 64 != 0)) ++wrong;
      if (slab.used_bytes() > slab.capacity_bytes()) ++wrong;
    }
  });
  for (std::thread &thread : threads) thread.join();
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(slab.used_bytes(), 0u);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
  for (const auto &id : published) EXPECT_EQ(slab.data(unpack(id)), nullptr);
}

}  // namespace
}  // namespace kvc::memory
