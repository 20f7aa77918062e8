#include <gtest/gtest.h>

#include <cstring>
#include <memory_resource>
#include <random>
#include <string>
#include <vector>

#include "golden/vectors.h"
#include "seq/identity.h"

namespace {

using kvc::base::Error;
using kvc::seq::ChunkNamer;
using kvc::seq::Extra;
using kvc::seq::Extras;
using kvc::seq::Name;

const uint8_t bytes[65] = {1, 2, 3};

kvc_extra extra(uint64_t begin, uint64_t count, const void *data = bytes, uint64_t size = 3) { return {begin, count, data, size}; }

std::vector<std::pair<uint64_t, uint64_t>> ranges(const Extras &extras) {
  std::vector<std::pair<uint64_t, uint64_t>> held;
  for (const Extra &e : extras.all()) held.emplace_back(e.token_begin, e.token_count);
  return held;
}
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

class ExtrasTest : public testing::Test {
 protected:
  kvc_status add(const std::vector<kvc_extra> &list) {
    error = {};
    return extras.add(list.data(), list.size(), error);
  }
  void expect_refused(const std::vector<kvc_extra> &list, const std::vector<std::string> &fragments, kvc_status status = KVC_ERR_ARGUMENT) {
    const Ranges before = ranges(extras);
    EXPECT_EQ(add(list), status);
    const std::string message = error.message;
    for (const std::string &fragment : fragments) EXPECT_NE(message.find(fragment), std::string::npos) << message << " lacks " << fragment;
    EXPECT_EQ(ranges(extras), before) << "all or nothing";
  }

  std::pmr::unsynchronized_pool_resource memory;
  Extras extras{&memory};
  Error error;
};

TEST_F(ExtrasTest, bad_entries_are_refused_by_index_and_value) {
  ASSERT_EQ(add({extra(1000, 5)}), KVC_OK);
  const kvc_extra good = extra(0, 4);
  expect_refused({good, extra(4, 1, nullptr)}, {"extra 1", "NULL"});
  expect_refused({good, extra(4, 1, bytes, 0)}, {"extra 1", "data_size 0", "64"});
  expect_refused({good, extra(4, 1, bytes, 65)}, {"extra 1", "data_size 65", "64"});
  expect_refused({good, extra(4, 1, bytes, UINT64_MAX)}, {"extra 1", "data_size 18446744073709551615"});
  expect_refused({good, extra(4, 0)}, {"extra 1", "token_count 0"});
  expect_refused({good, extra(4, UINT64_MAX)}, {"extra 1", "token_begin 4", "token_count 18446744073709551615"});
  expect_refused({good, extra(UINT64_MAX, 1)}, {"extra 1", "token_begin 18446744073709551615"});
  expect_refused({extra(10, 4), extra(9, 1)}, {"extra 1", "token_begin 9", "10"});
  expect_refused({good, extra(3, 1)}, {"extra 1", "token_begin 3", "overlaps", "4"});
  expect_refused({good, good}, {"extra 1", "token_begin 0", "overlaps"});
  expect_refused({extra(0, 1), extra(1004, 1)}, {"extra 1", "1004", "1000..1005"}, KVC_ERR_RANGE);
  expect_refused({extra(0, 2000)}, {"extra 0", "1000..1005"}, KVC_ERR_RANGE);
  EXPECT_EQ(extras.add(nullptr, 2, error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(extras.add(nullptr, 0, error), KVC_OK);
}

TEST_F(ExtrasTest, the_largest_sizes_are_taken) {
  ASSERT_EQ(add({extra(0, UINT64_MAX, bytes, 64)}), KVC_OK) << error.message;
  EXPECT_EQ(extras.all()[0].data_size, 64);
  EXPECT_EQ(std::memcmp(extras.all()[0].data, bytes, 64), 0);
}

TEST_F(ExtrasTest, later_lists_find_their_place_among_earlier_ones) {
  ASSERT_EQ(add({extra(100, 10), extra(200, 10)}), KVC_OK);
  ASSERT_EQ(add({extra(0, 100), extra(110, 90), extra(210, 1)}), KVC_OK) << error.message;
  EXPECT_EQ(ranges(extras), (Ranges{{0, 100}, {100, 10}, {110, 90}, {200, 10}, {210, 1}}));
}

TEST_F(ExtrasTest, a_replacing_list_drops_what_begins_at_its_position_or_after_and_nothing_before) {
  ASSERT_EQ(add({extra(0, 10), extra(10, 30), extra(40, 10), extra(60, 5)}), KVC_OK);
  const kvc_extra later = extra(45, 10);
  ASSERT_EQ(extras.add(&later, 1, error, 30), KVC_OK) << error.message;
  EXPECT_EQ(ranges(extras), (Ranges{{0, 10}, {10, 30}, {45, 10}}));
  const kvc_extra over = extra(35, 1);
  EXPECT_EQ(extras.add(&over, 1, error, 11), KVC_ERR_RANGE);  // {10, 30} begins before the position: it stays and is in the way
  EXPECT_EQ(ranges(extras), (Ranges{{0, 10}, {10, 30}, {45, 10}}));
  ASSERT_EQ(extras.add(&over, 1, error, 10), KVC_OK) << error.message;
  EXPECT_EQ(ranges(extras), (Ranges{{0, 10}, {35, 1}}));
  ASSERT_EQ(extras.add(&later, 1, error, 0), KVC_OK) << error.message;
  EXPECT_EQ(ranges(extras), (Ranges{{45, 10}}));
}

/// The oracle knows no ranges: it asks for every token which extra stands behind it, and writes an entry wherever that changes.
Name naive_chunk(const Name &parent, const std::vector<int32_t> &tokens, uint64_t chunk_begin, const std::vector<kvc_extra> &list) {
  std::vector<int> owner(tokens.size(), -1);
  for (size_t t = 0; t < tokens.size(); ++t) {
    for (size_t e = 0; e < list.size(); ++e) {
      for (uint64_t i = 0; i < list[e].token_count; ++i) {
        if (list[e].token_begin + i == chunk_begin + t) owner[t] = static_cast<int>(e);
      }
    }
  }
  std::string entries;
  uint32_t count = 0;
  const auto number = [](auto value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); };
  for (size_t t = 0; t < tokens.size();) {
    size_t past = t + 1;
    while (past < tokens.size() && owner[past] == owner[t]) ++past;
    if (owner[t] >= 0) {
      const kvc_extra &e = list[static_cast<size_t>(owner[t])];
      entries += number(static_cast<uint32_t>(t)) + number(static_cast<uint32_t>(past - t)) + number(e.data_size);
      entries += std::string(static_cast<const char *>(e.data), e.data_size);
      ++count;
    }
    t = past;
  }
  std::string input = "kvc chunk 1" + std::string(parent.begin(), parent.end()) + number(static_cast<uint32_t>(tokens.size()));
  input += std::string(reinterpret_cast<const char *>(tokens.data()), tokens.size() * 4) + number(count) + entries;
  return kvc::base::Sha256().digest(input.data(), input.size());
}

TEST(ExtrasProperty, names_of_random_chains_are_those_of_a_naive_clipping) {
  std::mt19937_64 random(20240607);
  std::pmr::unsynchronized_pool_resource memory;
  ChunkNamer namer;
  for (int round = 0; round < 400; ++round) {
    const uint32_t chunk_tokens = 16 * static_cast<uint32_t>(1 + random() % 4), chunks = static_cast<uint32_t>(1 + random() % 4);
    std::vector<kvc_extra> list;
    // Gaps of 0 are common, so that neighbours touch; lengths reach from a token to more than a chunk, and past the end of the tokens.
    for (uint64_t at = random() % 20; at < uint64_t{chunks} * chunk_tokens + 30;) {
      const uint64_t count = random() % 3 ? 1 + random() % 9 : 1 + random() % 150;
      list.push_back(extra(at, count, bytes, 1 + random() % 64));
      at += count + (random() % 2 ? 0 : random() % 40);
    }
    // Given in two interleaved lists, as kvc_seq_identify may.
    std::vector<kvc_extra> first, second;
    for (const kvc_extra &e : list) (random() % 2 ? first : second).push_back(e);
    Extras extras(&memory);
    Error error;
    ASSERT_EQ(extras.add(first.data(), first.size(), error), KVC_OK) << error.message;
    ASSERT_EQ(extras.add(second.data(), second.size(), error), KVC_OK) << error.message;

    Name name{}, expected{};
    for (uint32_t c = 0; c < chunks; ++c) {
      std::vector<int32_t> tokens(chunk_tokens);
      for (int32_t &token : tokens) token = static_cast<int32_t>(random());
      const uint64_t begin = uint64_t{c} * chunk_tokens;
      name = namer.next(name, tokens.data(), chunk_tokens, begin, extras.all());
      expected = naive_chunk(expected, tokens, begin, list);
      ASSERT_EQ(golden::hex(name), golden::hex(expected)) << "round " << round << ", chunk " << c;
    }
  }
}

TEST(ExtrasProperty, a_full_chunk_of_one_token_extras_with_the_longest_data_is_named) {
  std::pmr::unsynchronized_pool_resource memory;
  std::vector<kvc_extra> list;
  for (uint64_t t = 0; t < 300; ++t) list.push_back(extra(t, 1, bytes, 64));
  Extras extras(&memory);
  Error error;
  ASSERT_EQ(extras.add(list.data(), list.size(), error), KVC_OK);
  const std::vector<int32_t> tokens(256, -1);
  EXPECT_EQ(ChunkNamer().next({}, tokens.data(), 256, 7, extras.all()), naive_chunk({}, tokens, 7, list));
}

}  // namespace
