#include "hybrid.h"

/// What goes first of a prefix with window rows and snapshots, what a lease on it keeps, and what is said when some of it went.
namespace {

using namespace kvc_test;

struct HybridEvictTest : testing::Test {
  HybridHost host{{full_layers(1, 2, 64, 64), window_layers(1, 1, 64, 64, 40), state_layers(1, 1, 3000, 100)}, KVC_F16, 16, 1u << 20};
  const std::vector<int32_t> tokens = ids(400);

  /// A snapshot at each of the ends.
  void append(kvc_seq *seq, uint64_t begin, const std::vector<uint64_t> &ends) {
    for (const uint64_t end : ends) {
      ASSERT_EQ(host.append_all(seq, tokens, begin, end, 1), KVC_OK) << host.error.message;
      begin = end;
    }
  }
  std::vector<int32_t> other(int32_t number) const { return ids(16, 1000 + number); }
  /// Prompts of others, let go at once.
  void press(int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; i++) {
      SeqHandle seq = host.create();
      ASSERT_EQ(host.append_all(seq, other(i), 0, 16, 9), KVC_OK) << host.error.message;
    }
  }
  /// How far a match of this prompt's first tokens and another's goes.
  uint64_t shared(uint64_t count) {
    std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + static_cast<int64_t>(count));
    const auto more = ids(100, 7);
    prompt.insert(prompt.end(), more.begin(), more.end());
    return host.look(prompt).tokens;
  }
};

TEST_F(HybridEvictTest, a_prefix_shrinks_from_the_back_and_all_that_is_left_of_it_can_be_matched) {
  SeqHandle seq = host.create();
  append(seq, 0, {16, 32, 48, 64, 80, 96});
  seq.reset();
  std::vector<uint64_t> lengths{96};
  for (int32_t i = 0; i < 300; i++) {
    press(i, 1);
    const kvc_match_info info = host.look(tokens);
    ASSERT_EQ(info.tokens, info.tokens_attention) << "after " << i + 1 << " others: what no match can end at stays";
    for (uint64_t count = 16; count <= info.tokens; count += 16) ASSERT_EQ(shared(count), count) << "an end inside of what is left, after " << i + 1 << " others";
    if (info.tokens != lengths.back()) lengths.push_back(info.tokens);
  }
  EXPECT_EQ(lengths, (std::vector<uint64_t>{96, 80, 64, 48, 32, 16, 0}));
}

TEST_F(HybridEvictTest, a_front_that_was_used_later_than_what_went_on_from_it_keeps_its_ends_as_long_as_its_chunks) {
  SeqHandle seq = host.create(), again;
  append(seq, 0, {16, 32, 48, 64, 80});
  seq.reset();
  press(0, 10);
  std::vector<int32_t> front(tokens.begin(), tokens.begin() + 48);
  EXPECT_EQ(host.look(front, &again).tokens, 48u);
  again.reset();
  for (int32_t i = 10; host.look(other(9)).tokens; i++) {
    ASSERT_LT(i, 300);
    press(i, 1);
  }
  EXPECT_EQ(host.look(tokens).tokens, 48u) << "what was used before the others went before them";
  for (const uint64_t count : {16u, 32u, 48u}) EXPECT_EQ(shared(count), count);
}

TEST_F(HybridEvictTest, a_lease_on_a_prompt_holds_the_last_place_inside_of_it_where_a_match_can_stop) {
  SeqHandle seq = host.create();
  append(seq, 0, {16, 32, 48, 64, 70});
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, 40, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  seq.reset();
  press(0, 200);
  EXPECT_EQ(shared(40), 32u) << "another user's prompt, the first 40 tokens the same";
  EXPECT_EQ(shared(16), 0u) << "the ends before that are not held";
  SeqHandle found;
  host.look({tokens.begin(), tokens.begin() + 40}, &found);
  host.expect_rows(found, 0, 0, 32, 1);
  host.expect_rows(found, 1, 0, 32, 1);
  host.expect_rows(found, 2, 31, 32, 1);
  found.reset();
  EXPECT_EQ(host.look(tokens).tokens, 48u) << "and what makes the end of its last chunk one";
  lease.reset();
  press(200, 200);
  EXPECT_EQ(host.look(tokens).tokens_attention, 0u);
}

TEST_F(HybridEvictTest, a_lease_on_a_prompt_without_such_a_place_holds_its_chunks) {
  SeqHandle seq = host.create();
  append(seq, 0, {70});
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, 40, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  seq.reset();
  press(0, 200);
  EXPECT_EQ(host.look(tokens).tokens_attention, 48u);
  EXPECT_EQ(host.look(tokens).tokens, 0u);
}

}  // namespace
