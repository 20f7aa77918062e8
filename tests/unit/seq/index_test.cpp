// The prefix index against an oracle that keeps a flat list and looks at all of it.
#include "seq/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace kvc::seq {
namespace {

constexpr NameHash kHash{{0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3}};

Name name_of(uint64_t number) {
  Name name{};
  std::mt19937_64 random(number);
  for (size_t i = 0; i < name.size(); i += 8) {
    const uint64_t word = number < 100 ? (i ? 0 : number + 1) : random();  // short keys are names too
    std::memcpy(name.data() + i, &word, 8);
  }
  return name;
}

/// Counts what it lends; fails the n-th request when told to.
class Meter final : public std::pmr::memory_resource {
 public:
  uint64_t used_bytes = 0;
  std::optional<uint64_t> failing;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (failing && (*failing)-- == 0) throw std::bad_alloc();
    used_bytes += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *p, size_t bytes, size_t alignment) override {
    used_bytes -= bytes;
    std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

struct Sink final : NodeSink {
  std::vector<uint64_t> gone;  // payloads
  void released(Ref, const Node &node, const Owner &) noexcept override { gone.push_back(node.payload); }
};

class IndexTest : public testing::Test {
 protected:
  Ref insert(uint64_t number, Ref parent = {}, uint32_t flags = 0, uint64_t tick = 0) {
    Node node{};
    node.name = name_of(number);
    node.payload = number;
    node.flags = flags;
    node.tick = tick;
    index_.reserve(1);
    return index_.insert(node, parent);
  }
  std::vector<uint64_t> evict_all() {
    while (index_.evict()) {
    }
    return std::exchange(sink_.gone, {});
  }
  Meter meter_;
  Sink sink_;
  Index index_{&meter_, &sink_, kHash};
};

using Numbers = std::vector<uint64_t>;

TEST_F(IndexTest, AnInsertedNodeIsFoundByItsNameAloneAndComesPinned) {
  const Ref a = insert(1);
  EXPECT_EQ(index_.find(name_of(1)), a);
  EXPECT_FALSE(index_.find(name_of(2)));
  EXPECT_FALSE(index_.evict()) << "pinned";
  index_.unpin(a, 1, false);
  EXPECT_EQ(index_.find(name_of(1)), a) << "not held is not gone";
  EXPECT_TRUE(index_.evict());
  EXPECT_FALSE(index_.find(name_of(1)));
  EXPECT_FALSE(index_.held(a));
  EXPECT_EQ(sink_.gone, Numbers{1});
}

TEST_F(IndexTest, ARefToANodeThatWentIsNotHeldWhenItsNumberIsUsedAgain) {
  const Ref a = insert(1);
  index_.unpin(a, 1, false);
  ASSERT_TRUE(index_.evict());
  const Ref b = insert(2);
  ASSERT_EQ(b.id, a.id) << "the number is used again, or this test shows nothing";
  EXPECT_FALSE(index_.held(a));
  EXPECT_TRUE(index_.held(b));
}

// B42: eviction walked to the parent first and missed the node in use.
TEST_F(IndexTest, B42AHeldNodeAndItsAncestorsStayAndEvictionSaysThatNothingIsLeft) {
  for (const int held : {2, 1}) {
    Ref chain[3];
    for (int i = 0; i < 3; i++) chain[i] = insert(static_cast<uint64_t>(10 + i), i ? chain[i - 1] : Ref{});
    const Ref rest = insert(20);
    for (int i = 0; i < 3; i++)
      if (i != held) index_.unpin(chain[i], 5, false);
    index_.unpin(rest, 9, false);
    const Numbers gone = evict_all();
    EXPECT_EQ(gone, held == 2 ? Numbers{20} : (Numbers{12, 20})) << "the least recently used first";
    for (int i = 0; i <= held; i++) EXPECT_TRUE(index_.held(chain[i])) << i;
    index_.unpin(chain[held], 11, false);
    EXPECT_EQ(evict_all().size(), static_cast<size_t>(held + 1));
  }
}

TEST_F(IndexTest, WhoOnlyLooksAtUnnamedNodesDoesNotKeepThemWhenTheirHolderLeavesForGoodNorTakesThemFromOneThatComesBack) {
  for (const int round : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const bool for_good = round & 1, left_before = round & 2;  // the tip's holder is the last to leave: what the other one did does not matter
    const int looked_at = round >> 2;
    const Ref up = insert(1, {}, node_unnamed), tip = insert(2, up, node_unnamed), look[] = {up, tip};
    index_.unpin(up, 1, left_before);
    index_.pin(look[looked_at]);
    index_.unpin(tip, 2, for_good);
    EXPECT_TRUE(index_.held(up));
    index_.unpin_looked_at(look[looked_at]);
    EXPECT_EQ(sink_.gone, for_good ? (Numbers{2, 1}) : Numbers{});
    EXPECT_EQ(index_.held(up), !for_good);
    (void)evict_all();
  }
}

TEST_F(IndexTest, OfTwoHoldersOfAnUnnamedNodeTheLastToLetGoSaysWhetherItGoesWithAWatchersPin) {
  for (const bool lapses_last : {true, false}) {
    const Ref a = insert(1, {}, node_unnamed);
    index_.pin(a);
    index_.pin(a);
    index_.unpin(a, 1, lapses_last);
    index_.unpin(a, 2, !lapses_last);
    index_.unpin_looked_at(a);
    EXPECT_EQ(index_.held(a), lapses_last);
    (void)evict_all();
  }
}

// B58: eviction asked for more than was missing.
TEST_F(IndexTest, B58OneCallEvictsOneNodeTheLeastRecentlyUsed) {
  std::vector<Ref> refs;
  for (uint64_t i = 0; i < 100; i++) refs.push_back(insert(i));
  std::mt19937 random(3);
  std::vector<uint64_t> ticks(100);
  for (uint64_t i = 0; i < 100; i++) ticks[i] = i + 1;
  std::shuffle(ticks.begin(), ticks.end(), random);
  for (uint64_t i = 0; i < 100; i++) index_.unpin(refs[i], ticks[i], false);
  for (uint64_t i = 0; i < 8; i++) {
    ASSERT_TRUE(index_.evict());
    ASSERT_EQ(sink_.gone.size(), i + 1);
    EXPECT_EQ(ticks[sink_.gone.back()], i + 1);
  }
  EXPECT_EQ(index_.chunk_count(), 92u);
}

// B53: a second holder's pin is its own.
TEST_F(IndexTest, B53OneHolderLettingGoTakesNothingFromTheOther) {
  const Ref a = insert(1);
  index_.pin(a);
  index_.unpin(a, 1, false);
  EXPECT_FALSE(index_.evict());
  EXPECT_TRUE(index_.held(a));
}

// B102: recency that was written by a reader broke the order and freed live entries.
TEST_F(IndexTest, B102UseThatIsRecordedWhileANodeIsQueuedChangesTheOrderAndNothingElse) {
  const Ref a = insert(1), b = insert(2), c = insert(3);
  index_.unpin(a, 1, false);
  index_.unpin(b, 2, false);
  index_.unpin(c, 3, false);
  index_.node(a).tick = 9;  // as an exists does, without a pin
  index_.pin(b);            // as a match does
  EXPECT_EQ(evict_all(), (Numbers{3, 1}));
  EXPECT_TRUE(index_.held(b));
  index_.unpin(b, 10, false);
  EXPECT_EQ(evict_all(), Numbers{2});
}

TEST_F(IndexTest, AnUnnamedChainGoesWithItsLastHolderUpToWhatHasANameOrAnotherHolder) {
  const Ref shared = insert(1);
  const Ref first = insert(2, shared, node_unnamed), second = insert(3, first, node_unnamed), third = insert(4, second, node_unnamed);
  index_.unpin(shared, 1, false);
  index_.unpin(second, 1, false);
  EXPECT_TRUE(sink_.gone.empty());
  index_.unpin(third, 2, true);
  EXPECT_EQ(sink_.gone, (Numbers{4, 3})) << "the first has a holder";
  EXPECT_FALSE(index_.find(name_of(2)));
  index_.unpin(first, 3, true);
  EXPECT_EQ(sink_.gone, (Numbers{4, 3, 2}));
  EXPECT_TRUE(index_.held(shared));
}

TEST_F(IndexTest, AnUnnamedNodeWhoseHoldLapsedStaysUntilRoomIsNeeded) {
  const Ref a = insert(1, {}, node_unnamed);
  index_.unpin(a, 1, false);
  EXPECT_TRUE(index_.held(a));
  EXPECT_EQ(evict_all(), Numbers{1});
}

TEST_F(IndexTest, ADroppedNodeIsNotFoundAtOnceAndGoesWhenItsLastHolderAndItsChildrenAreGone) {
  const Ref a = insert(1), b = insert(2, a);
  index_.unpin(a, 1, false);
  index_.drop(a);
  EXPECT_FALSE(index_.find(name_of(1)));
  EXPECT_FALSE(index_.held(a));
  EXPECT_EQ(index_.chunk_count(), 2u);
  index_.drop(a);  // once more changes nothing
  const Ref again = insert(1);
  EXPECT_EQ(index_.find(name_of(1)), again) << "its name is free";
  index_.unpin(b, 2, false);
  ASSERT_TRUE(index_.evict());
  EXPECT_EQ(sink_.gone, (Numbers{2, 1})) << "the child's going takes the dropped parent along";
  EXPECT_TRUE(index_.held(again));
}

TEST_F(IndexTest, AChildOfANodeThatWasReplacedIsNotFoundUnderTheNewOneAndLeavesItsNameToItsSuccessor) {
  const Ref a = insert(1), b = insert(2, a);
  EXPECT_EQ(index_.find_child(name_of(2), a), b);
  EXPECT_EQ(index_.find_child(name_of(1), {}), a);
  EXPECT_FALSE(index_.find_child(name_of(2), {}));
  index_.drop(a);
  const Ref again = insert(1);
  EXPECT_FALSE(index_.find_child(name_of(2), again)) << "a pin on it would not hold the new one";
  index_.unname(b);
  EXPECT_FALSE(index_.find(name_of(2)));
  EXPECT_TRUE(index_.held(b)) << "whoever holds it reads on";
  const Ref successor = insert(2, again);
  EXPECT_EQ(index_.find_child(name_of(2), again), successor);
  index_.unpin(a, 1, true);
  index_.unpin(b, 2, true);
  EXPECT_EQ(sink_.gone, (Numbers{2, 1}));
  const Ref child = insert(3, successor);
  index_.unpin(child, 3, false);
  index_.unname(child);
  EXPECT_EQ(sink_.gone, (Numbers{2, 1, 3})) << "held by nobody, it is gone at once";
}

TEST_F(IndexTest, AReserveThatFailsAtAnyRequestHasChangedNothingAndCanBeRepeated) {
  uint64_t number = 100;
  for (int round = 0; round < 12; round++) {  // sizes at which every container grows
    for (uint64_t nth = 0;; nth++) {
      const uint64_t chunks = index_.chunk_count();
      meter_.failing = nth;
      bool thrown = false;
      try {
        index_.reserve(500);
      } catch (const std::bad_alloc &) {
        thrown = true;
      }
      meter_.failing.reset();
      ASSERT_EQ(index_.chunk_count(), chunks);
      for (uint64_t n = 100; n < number; n += 97) ASSERT_TRUE(index_.find(name_of(n))) << n;
      if (!thrown) break;
    }
    meter_.failing = 0;  // what was reserved needs no memory any more
    for (int i = 0; i < 500; i++) {
      Node node{};
      node.name = name_of(number);
      node.payload = number++;
      const Ref ref = index_.insert(node, {});
      index_.unpin(ref, number, false);
    }
    meter_.failing.reset();
  }
  meter_.failing = 0;
  EXPECT_EQ(evict_all().size(), number - 100) << "nor does letting everything go";
}

TEST_F(IndexTest, AReservationGivenBackLeavesRoomForNobodyElse) {
  index_.reserve(3);
  index_.unreserve(2);
  Node node{};
  node.name = name_of(7);
  (void)index_.insert(node, {});
  EXPECT_DEATH((void)index_.insert(node, {}), "") << "not reserved";
}

TEST(IndexMemory, EverythingGoesBackWithTheIndex) {
  Meter meter;
  Sink sink;
  {
    Index index(&meter, &sink, kHash);
    for (int i = 0; i < 3; i++) {  // to a border of the node blocks and over it
      index.reserve(4095);
      for (uint64_t n = 0; n < 4095; n++) {
        Node node{};
        node.name = name_of(1000 + n + static_cast<uint64_t>(i) * 4095);
        (void)index.insert(node, {});
      }
    }
  }
  EXPECT_EQ(meter.used_bytes, 0u);
}

/// A node as the oracle sees it: every question is answered by looking at all of them.
struct Known {
  Ref ref, parent;
  uint64_t number, tick;
  uint32_t pins;
  bool unnamed, dropped, object;
};

class Oracle {
 public:
  Oracle(Index &index, Sink &sink, uint64_t seed) : index_(index), sink_(sink), random_(seed) {}

  void step() {
    const uint64_t dice = random_() % 100;
    if (dice < 30 && all_.size() < 100) insert();
    else if (dice < 42) pin();
    else if (dice < 82) unpin();
    else if (dice < 84) drop();
    else if (dice < 88) use();
    else if (dice < 98) evict();
    else look();
    ASSERT_EQ(std::set<uint64_t>(sink_.gone.begin(), sink_.gone.end()), gone_);
    ASSERT_EQ(sink_.gone.size(), gone_.size()) << "twice";
    sink_.gone.clear();
    gone_.clear();
    uint64_t objects = 0;
    for (const auto &[number, k] : all_) objects += k.object;
    ASSERT_EQ(index_.object_count(), objects);
    ASSERT_EQ(index_.chunk_count(), all_.size() - objects);
  }

  uint64_t evictions() const { return evictions_; }

 private:
  Known *any() {
    if (all_.empty()) return nullptr;
    return &std::next(all_.begin(), static_cast<int64_t>(random_() % all_.size()))->second;
  }
  Known *by_ref(Ref ref) {
    for (auto &[number, k] : all_)
      if (k.ref == ref) return &k;
    return nullptr;
  }
  bool has_children(const Known &parent) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto &e) { return e.second.parent == parent.ref; });
  }
  void insert() {
    Known k{};
    Known *parent = random_() % 4 ? any() : nullptr;
    if (parent && parent->object) parent = nullptr;
    k.number = next_number_++;
    k.object = !parent && random_() % 3 == 0;
    k.unnamed = !k.object && (random_() % 3 == 0 || (parent && parent->unnamed));
    k.pins = 1;
    k.tick = ++tick_;
    if (parent) k.parent = parent->ref;
    Node node{};
    node.name = name_of(k.number);
    node.payload = k.number;
    node.tick = k.tick;
    node.flags = (k.object ? static_cast<uint32_t>(node_object) : 0) | (k.unnamed ? static_cast<uint32_t>(node_unnamed) : 0);
    index_.reserve(1);
    k.ref = index_.insert(node, k.parent);
    ASSERT_EQ(by_ref(k.ref), nullptr);
    all_[k.number] = k;
  }
  void pin() {
    if (Known *k = any()) k->pins++, index_.pin(k->ref);
  }
  void unpin() {
    Known *k = any();
    for (int tries = 0; k && !k->pins && tries < 3; tries++) k = any();
    if (!k || !k->pins) return;
    const bool release = random_() % 2;
    const uint64_t tick = random_() % 4 ? ++tick_ : 0;
    const Ref ref = k->ref;
    k->pins--;
    k->tick = std::max(k->tick, tick);
    if (!k->pins && !has_children(*k) && (k->dropped || (release && k->unnamed))) go(*k, release);
    index_.unpin(ref, tick, release);
  }
  void drop() {
    Known *k = any();
    if (!k) return;
    const Ref ref = k->ref;
    k->dropped = true;
    if (!k->pins && !has_children(*k)) go(*k, false);
    index_.drop(ref);
  }
  void use() {
    Known *k = any();
    if (k) index_.node(k->ref).tick = k->tick = ++tick_;
  }
  /// The node leaves, and whoever above it lived through it alone.
  void go(Known &leaf, bool release) {
    for (Known *k = &leaf; k;) {
      const Known gone = *k;
      gone_.insert(gone.number);
      all_.erase(gone.number);
      k = gone.parent ? by_ref(gone.parent) : nullptr;
      if (!k) return;
      k->tick = std::max(k->tick, gone.tick);
      if (k->pins || has_children(*k) || !(k->dropped || (release && k->unnamed))) return;
    }
  }
  void evict() {
    Known *oldest = nullptr;
    for (auto &[number, k] : all_)
      if (!k.pins && !has_children(k) && (!oldest || k.tick < oldest->tick)) oldest = &k;
    const bool any = oldest != nullptr;
    if (oldest) go(*oldest, false);
    evictions_ += any;
    ASSERT_EQ(index_.evict(), any);
  }
  void look() {
    for (const auto &[number, k] : all_) {
      ASSERT_EQ(index_.held(k.ref), !k.dropped);
      const bool object = index_.node(k.ref).flags & node_object, found = !k.unnamed && !k.dropped;
      ASSERT_EQ(index_.find(name_of(number)), found && !object ? k.ref : Ref{});
      ASSERT_EQ(index_.find_object(name_of(number)), found && object ? k.ref : Ref{});
      if (found && object) {  // names of 64 bits that are equal are far more than this test makes
        ASSERT_EQ(index_.likely_object(index_.hash(name_of(number))).id, k.ref.id);
      }
      ASSERT_EQ(index_.parent(k.ref), k.parent);
      ASSERT_EQ(index_.node(k.ref).pins, k.pins);
    }
    for (uint64_t n = next_number_ > 200 ? next_number_ - 200 : 0; n < next_number_; n++)
      if (!all_.contains(n)) {
        ASSERT_FALSE(index_.find(name_of(n)));
      }
    uint64_t live = 0;
    for (uint32_t id = 1; id < index_.node_count_max(); id++) live += index_.live(id) != nullptr;
    ASSERT_EQ(live, all_.size());
  }

  Index &index_;
  Sink &sink_;
  std::mt19937_64 random_;
  uint64_t evictions_ = 0;
  std::map<uint64_t, Known> all_;
  std::set<uint64_t> gone_;
  uint64_t next_number_ = 0, tick_ = 0;
};

TEST(IndexOracle, AHundredThousandRandomStepsAgreeWithALookAtEverything) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int steps = 10000;
#else
  constexpr int steps = 50000;
#endif
  for (const uint64_t seed : {1u, 2u}) {
    SCOPED_TRACE(seed);
    Sink sink;
    Index index(std::pmr::new_delete_resource(), &sink, kHash);
    Oracle oracle(index, sink, seed);
    for (int i = 0; i < steps; i++) {
      oracle.step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "step " << i;
    }
    EXPECT_GT(oracle.evictions(), steps / 50u) << "too little happened";
  }
}

}  // namespace
}  // namespace kvc::seq
