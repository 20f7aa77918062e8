// Reads in flight: what they hold, until when, and that nothing of it is lost or kept.
#include "store/reads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace kvc::store {
namespace {

struct Gone final : seq::NodeSink {
  std::set<uint64_t> payloads;
  void released(seq::Ref, const seq::Node &node, const seq::Owner &) noexcept override { EXPECT_TRUE(payloads.insert(node.payload).second); }
};

class ReadsTest : public testing::Test {
 protected:
  /// An object that nobody holds, used at `tick`.
  uint32_t object(uint64_t number, uint64_t tick) {
    seq::Node node{};
    std::memcpy(node.name.data(), &number, sizeof number);
    node.payload = number;
    node.flags = seq::node_object;
    index_.reserve(1);
    const seq::Ref ref = index_.insert(node, {});
    index_.unpin(ref, tick, false);
    return ref.id;
  }
  Reads::Read &read(std::vector<uint32_t> ids, uint64_t tick) {
    Reads::Read &read = reads_.begin(index_);
    for (const uint32_t id : ids) read.ids[read.count++] = id;
    read.tick = tick;
    return read;
  }
  /// As whoever needs room: settles first.
  std::vector<uint64_t> evict_all() {
    reads_.settle(index_);
    while (index_.evict()) {
    }
    std::vector<uint64_t> gone(gone_.payloads.begin(), gone_.payloads.end());
    gone_.payloads.clear();
    return gone;
  }
  void drop(uint32_t id) {
    reads_.settle(index_);
    index_.drop(index_.ref_of(id));
  }
  Gone gone_;
  seq::Index index_{std::pmr::get_default_resource(), &gone_, seq::NameHash{{1, 2, 3, 4}}};
  Reads reads_{std::pmr::get_default_resource()};
};

using Numbers = std::vector<uint64_t>;

TEST_F(ReadsTest, what_is_being_read_stays_and_may_go_when_the_read_is_done) {
  const uint32_t a = object(1, 1), b = object(2, 2);
  object(3, 3);
  Reads::Read &one = read({a, b}, 10);
  EXPECT_EQ(evict_all(), Numbers{3});
  Reads::end(one);
  EXPECT_EQ(evict_all(), (Numbers{1, 2}));
}

TEST_F(ReadsTest, a_node_dropped_while_it_is_read_goes_when_its_last_read_is_done) {
  const uint32_t a = object(1, 1);
  Reads::Read &one = read({a}, 10), &other = read({a}, 11);
  drop(a);
  EXPECT_TRUE(gone_.payloads.empty());
  Reads::end(one);
  reads_.settle(index_);
  EXPECT_TRUE(gone_.payloads.empty()) << "the other one copies still";
  Reads::end(other);
  reads_.settle(index_);
  EXPECT_EQ(gone_.payloads, (std::set<uint64_t>{1}));
}

TEST_F(ReadsTest, the_same_object_twice_in_one_read_is_held_and_let_go_twice) {
  const uint32_t a = object(1, 1);
  Reads::Read &one = read({a, a}, 10);
  drop(a);
  EXPECT_TRUE(gone_.payloads.empty());
  Reads::end(one);
  reads_.settle(index_);
  EXPECT_EQ(gone_.payloads, (std::set<uint64_t>{1}));
}

TEST_F(ReadsTest, a_read_counts_as_use_whether_it_was_overtaken_or_not) {
  const uint32_t a = object(1, 1), b = object(2, 2);
  object(3, 3);
  Reads::end(read({a}, 10));  // done before anybody looks
  Reads::Read &late = read({b}, 11);
  reads_.settle(index_);
  Reads::end(late);
  reads_.settle(index_);
  for (const uint64_t next : {3, 1, 2}) {
    ASSERT_TRUE(index_.evict());
    EXPECT_TRUE(gone_.payloads.contains(next)) << next;
  }
}

TEST_F(ReadsTest, another_node_takes_the_place_of_a_wrong_one_before_and_after_it_was_pinned) {
  for (const bool pinned : {false, true}) {
    const uint32_t wrong = object(1, 1), right = object(2, 2);
    Reads::Read &one = read({wrong}, 10);
    if (pinned) reads_.settle(index_);
    Reads::replace(one, 0, index_.ref_of(right), index_);
    EXPECT_EQ(evict_all(), Numbers{1}) << pinned;
    Reads::end(one);
    EXPECT_EQ(evict_all(), Numbers{2}) << pinned;
  }
}

TEST_F(ReadsTest, any_number_may_be_in_flight_and_their_bytes_are_counted_once_they_are_done) {
  std::vector<Reads::Read *> all;
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < 500; i++) {
    ids.push_back(object(i, i));
    all.push_back(&read({ids.back()}, 1000 + i));
    all.back()->bytes = 3;
  }
  EXPECT_EQ(std::set<Reads::Read *>(all.begin(), all.end()).size(), all.size()) << "one was lent twice";
  EXPECT_TRUE(evict_all().empty());
  EXPECT_EQ(reads_.settled_bytes(), 0u);
  for (Reads::Read *one : all) Reads::end(*one);
  EXPECT_EQ(evict_all().size(), 500u);
  EXPECT_EQ(reads_.settled_bytes(), 1500u);
}

}  // namespace
}  // namespace kvc::store
