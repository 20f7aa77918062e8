// Scopes with queues of their own, against an oracle that looks at all it knows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/fault.h"
#include "seq/index.h"

namespace kvc::seq {
namespace {

Name name_of(uint64_t number) {
  Name name{};
  std::memcpy(name.data(), &number, sizeof number);
  name[31] = 1;
  return name;
}

struct Sink final : NodeSink {
  std::vector<uint64_t> gone;  // payloads
  void released(Ref, const Node &node, const Owner &) noexcept override { gone.push_back(node.payload); }
};

struct Known {
  Ref ref, parent;
  uint32_t scope, pins;
  uint64_t tick;
  bool own_ttl;
};

class LimitedTest : public testing::Test {
 protected:
  static constexpr uint32_t scope_count = 4;

  void insert() {
    const auto scope = static_cast<uint32_t>(random_() % scope_count);
    const Known *parent = nullptr;
    if (random_() % 2)
      for (const auto &[number, k] : all_)
        if (k.scope == scope && !k.own_ttl && random_() % 4 == 0) parent = &k;
    Known k{{}, parent ? parent->ref : Ref{}, scope, 1, ++tick_, !parent && random_() % 4 == 0};
    Node node{};
    node.name = name_of(next_);
    node.payload = next_;
    node.tick = k.tick;
    if (k.own_ttl) node.flags = node_object | node_own_ttl;
    index_.reserve(1, scope);
    k.ref = index_.insert(node, k.parent, {0, scope});
    all_[next_++] = k;
  }
  bool leaf(const Known &k) const {
    return std::none_of(all_.begin(), all_.end(), [&](const auto &e) { return e.second.parent == k.ref; });
  }
  /// What must go next, 0: nothing.
  template <typename May>
  uint64_t next_to_go(May &&may) const {
    uint64_t best = 0, tick = UINT64_MAX;
    for (const auto &[number, k] : all_)
      if (!k.pins && leaf(k) && may(k) && k.tick < tick) best = number, tick = k.tick;
    return best;
  }
  void expect_gone(bool went, uint64_t number) {
    ASSERT_EQ(went, number != 0);
    ASSERT_EQ(sink_.gone, number ? std::vector<uint64_t>{number} : std::vector<uint64_t>{});
    sink_.gone.clear();
    if (!number) return;
    const Known k = all_[number];
    all_.erase(number);
    for (auto &[other, up] : all_)
      if (up.ref == k.parent) up.tick = std::max(up.tick, k.tick);
  }
  void step() {
    const uint64_t dice = random_() % 100;
    if (dice < 30 && all_.size() < 120) return insert();
    if (dice < 70 && !all_.empty()) {
      Known &k = std::next(all_.begin(), static_cast<int64_t>(random_() % all_.size()))->second;
      if (k.pins && random_() % 4) {
        k.pins--;
        k.tick = ++tick_;
        return index_.unpin(k.ref, tick_, false);
      }
      k.pins++;
      return index_.pin(k.ref);
    }
    const auto scope = static_cast<uint32_t>(random_() % scope_count);
    if (dice < 74) return toggle(scope, random_() % 2 ? Index::by_quota : Index::by_ttl);
    if (dice < 80) return expect_gone(index_.evict(), next_to_go([](const Known &) { return true; }));
    if (dice < 90 && on_[scope][Index::by_quota]) return expect_gone(index_.evict_of(scope), next_to_go([&](const Known &k) { return k.scope == scope; }));
    if (!on_[scope][Index::by_ttl]) return;
    const uint64_t tick = tick_ - std::min<uint64_t>(tick_, random_() % 60);
    const uint64_t old = next_to_go([&](const Known &k) { return k.scope == scope && !k.own_ttl && k.tick <= tick; });
    ASSERT_TRUE(!old || !index_.none_older(scope, tick));
    expect_gone(index_.evict_older(scope, tick), old);
  }
  void toggle(uint32_t scope, Index::Queue queue) {
    if (on_[scope][queue]) index_.unlimit(scope, queue);
    else index_.limit(scope, queue);
    on_[scope][queue] = !on_[scope][queue];
  }

  Sink sink_;
  std::mt19937_64 random_{5};
  std::map<uint64_t, Known> all_;
  uint64_t next_ = 1, tick_ = 0;
  bool on_[scope_count][2] = {};
  Index index_{std::pmr::new_delete_resource(), &sink_, NameHash{{1, 2, 3, 4}}};
};

TEST_F(LimitedTest, what_goes_for_a_quota_or_by_age_is_the_oldest_of_its_scope_that_nobody_holds) {
  for (int i = 0; i < 30000 && !HasFatalFailure(); i++) step();
  EXPECT_GT(next_, 1000u);
}

TEST_F(LimitedTest, an_insert_that_was_reserved_for_before_its_scope_was_limited_is_found_all_the_same) {
  index_.reserve(200, 1);
  index_.limit(1, Index::by_quota);
  for (uint64_t n = 0; n < 200; n++) {
    Node node{};
    node.name = name_of(n);
    node.payload = n + 1;
    node.tick = n + 1;
    index_.unpin(index_.insert(node, {}, {0, 1}), n + 1, false);
  }
  for (uint64_t n = 0; n < 200; n++) {
    ASSERT_TRUE(index_.evict_of(1)) << n;
    ASSERT_EQ(sink_.gone.back(), n + 1);
  }
  EXPECT_FALSE(index_.evict_of(1));
}

TEST_F(LimitedTest, a_queue_that_memory_was_refused_for_was_not_begun) {
#ifdef KVC_FAULTS
  ASSERT_TRUE(base::fault_arm("seq.index.limit", 1, 1));
  EXPECT_THROW(index_.limit(1, Index::by_ttl), std::bad_alloc);
  base::fault_disarm_all();
#endif
  index_.limit(1, Index::by_ttl);
  EXPECT_TRUE(index_.none_older(1, UINT64_MAX));
}

}  // namespace
}  // namespace kvc::seq
