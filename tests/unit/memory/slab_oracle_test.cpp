// The slab against a std::map of what must lie where.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "memory/slab.h"

namespace kvc::memory {
namespace {

struct Live {
  SlotId id;
  uint64_t bytes;  // of the slot
  uint64_t stamp;
};

class Model {
 public:
  Model(uint64_t arena_bytes, uint32_t seed) : random_(seed) {
    base::Error error;
    EXPECT_EQ(slab_.open({.bytes = arena_bytes}, false, resource_, error), KVC_OK) << error.message;
  }

  /// 64 B .. 40 MiB, every order of magnitude alike, ends of the range included.
  uint64_t random_bytes() {
    const uint64_t top = uint64_t{64} << random_() % 20;
    const uint64_t bytes = top + random_() % (top / 4 + 1) * (random_() % 2);
    return std::min(bytes, uint64_t{40} << 20);
  }

  void take(uint64_t bytes) {
    const uint64_t largest = slab_.largest_free_bytes();
    SlotId id;
    base::Error error;
    const kvc_status status = slab_.take(&id, bytes, error);
    ASSERT_EQ(status, bytes <= largest ? KVC_OK : KVC_ERR_FULL) << error.message;
    if (status != KVC_OK) {
      ASSERT_EQ(id, SlotId{});
      ASSERT_EQ(slab_.used_bytes(), used_bytes_);
      return;
    }
    uint8_t *data = slab_.data(id);
    ASSERT_NE(data, nullptr);
    if (!base_) base_ = data;
    const uint64_t slot_bytes = slab_.bytes(id);
    ASSERT_GE(slot_bytes, bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(data) % (bytes > 32768 ? 4096 : 64), 0u);
    const auto next = live_.lower_bound(data);
    ASSERT_TRUE(next == live_.end() || data + slot_bytes <= next->first) << "overlaps the slot behind";
    if (next != live_.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second.bytes, data) << "overlaps the slot before";
    }
    const uint64_t stamp = ++stamps_;
    memcpy(data, &stamp, sizeof stamp);
    memcpy(data + slot_bytes - sizeof stamp, &stamp, sizeof stamp);
    live_[data] = {id, slot_bytes, stamp};
    used_bytes_ += slot_bytes;
  }

  void give_random() {
    auto victim = live_.upper_bound(base_ + random_() % slab_.capacity_bytes());
    if (victim == live_.end()) victim = live_.begin();
    give(victim);
  }

  void give(std::map<uint8_t *, Live>::iterator victim) {
    const Live live = victim->second;
    ASSERT_EQ(slab_.data(live.id), victim->first);
    uint64_t front = 0, back = 0;
    memcpy(&front, victim->first, sizeof front);
    memcpy(&back, victim->first + live.bytes - sizeof back, sizeof back);
    ASSERT_TRUE(front == live.stamp && back == live.stamp) << "somebody else wrote into the slot";
    slab_.give(live.id);
    used_bytes_ -= live.bytes;
    live_.erase(victim);
    ASSERT_EQ(slab_.data(live.id), nullptr);
    ASSERT_EQ(slab_.bytes(live.id), 0u);
    stale_.push_back(live.id);
  }

  void check() {
    ASSERT_EQ(slab_.used_bytes(), used_bytes_);
    const SlotId old = stale_.empty() ? SlotId{} : stale_[random_() % stale_.size()];
    ASSERT_EQ(slab_.data(old), nullptr);
  }

  void give_all() {
    while (!live_.empty()) give_random();
    check();
    ASSERT_EQ(slab_.largest_free_bytes(), slab_.capacity_bytes()) << "not one piece";
  }

  size_t live_count() const { return live_.size(); }
  std::mt19937 &random() { return random_; }
  Slab &slab() { return slab_; }
  Resource &resource() { return resource_; }

 private:
  std::mt19937 random_;
  Resource resource_;
  Slab slab_;
  uint8_t *base_ = nullptr;
  std::map<uint8_t *, Live> live_;
  std::vector<SlotId> stale_;
  uint64_t used_bytes_ = 0;
  uint64_t stamps_ = 0;
};

TEST(SlabOracle, B127FreePlusUsedIsCapacityAfterEachOfAMillionRandomSteps) {
  Model model(uint64_t{64} << 20, 1);
  // The share of takes swings, so that the arena runs full and empty many times over.
  for (int step = 0; step < 1000000; ++step) {
    const unsigned takes_in_100 = step / 5000 % 2 ? 35 : 65;
    if (model.live_count() == 0 || model.random()() % 100 < takes_in_100) {
      // Mostly small ones: they are what makes many slots.
      const uint64_t bytes = model.random()() % 8 ? 1 + model.random()() % 9000 : model.random_bytes();
      ASSERT_NO_FATAL_FAILURE(model.take(bytes));
    } else {
      ASSERT_NO_FATAL_FAILURE(model.give_random());
    }
    ASSERT_NO_FATAL_FAILURE(model.check());
  }
  model.give_all();
}

TEST(SlabOracle, SizesFrom64BytesTo40MebibytesLiveSideBySide) {
  Model model(uint64_t{256} << 20, 2);
  for (int step = 0; step < 50000; ++step) {
    if (model.live_count() == 0 || model.random()() % 100 < 52) {
      ASSERT_NO_FATAL_FAILURE(model.take(model.random_bytes()));
    } else {
      ASSERT_NO_FATAL_FAILURE(model.give_random());
    }
    ASSERT_NO_FATAL_FAILURE(model.check());
  }
  model.give_all();
}

TEST(SlabOracle, TheSmallestArenaServesEveryClass) {
  Model model(1, 3);
  for (int step = 0; step < 100000; ++step) {
    if (model.live_count() == 0 || model.random()() % 100 < 60) {
      ASSERT_NO_FATAL_FAILURE(model.take(1 + model.random()() % 40000));
    } else {
      ASSERT_NO_FATAL_FAILURE(model.give_random());
    }
    ASSERT_NO_FATAL_FAILURE(model.check());
  }
  model.give_all();
}

TEST(SlabOracle, B55TheBooksStopGrowingUnderChurn) {
  Model model(uint64_t{32} << 20, 4);
  uint64_t settled = 0;
  for (int round = 0; round < 40; ++round) {
    for (int step = 0; step < 3000; ++step) {
      ASSERT_NO_FATAL_FAILURE(model.take(1 + model.random()() % (round % 2 ? 2000 : 200000)));
    }
    model.give_all();
    if (round == 3) settled = model.resource().used_bytes();
  }
  EXPECT_LE(model.resource().used_bytes(), settled + settled / 20);
}

}  // namespace
}  // namespace kvc::memory
