#include "base/fault.h"
#include "stamped_store.h"

/// What a host knows of reuse decides who is evicted first, and nothing else.
namespace {

using namespace kvc_test;

struct HintTest : StampedStore {
  void SetUp() override { open(); }
  kvc_status hint(kvc_seq *seq, uint32_t flags, uint32_t priority = 0, uint64_t continues_in_ms = 0) {
    auto h = sized<kvc_hint>();
    h.flags = flags, h.priority = priority, h.continues_in_ms = continues_in_ms;
    return kvc_seq_hint(seq, &h, &error);
  }
  /// Others' chunks until so many of those that nobody holds had to go.
  void evict(uint64_t count) {
    for (const uint64_t until = metrics().evicted_chunks + count; metrics().evicted_chunks < until;) {
      SeqHandle seq = create();
      ASSERT_EQ(append(seq, static_cast<uint64_t>(fresh++), 0, chunk), KVC_OK) << error.message;
    }
  }
  /// Fills the store, so that the next chunk evicts one.
  void fill() { evict(1); }
  /// Tokens of a writer that are still held; no use is counted.
  uint64_t held(uint64_t writer, uint64_t tokens) {
    const auto all = ids_of(writer, 0, tokens);
    auto found = sized<kvc_match_info>();
    auto options = sized<kvc_seq_options>();
    options.flags = KVC_SEQ_PEEK;
    EXPECT_EQ(kvc_match(nullptr, &found, scope, all.data(), all.size(), &options, nullptr, &error), KVC_OK) << error.message;
    return found.tokens;
  }
};

TEST_F(HintTest, chunks_of_a_conversation_that_is_over_go_first_the_last_of_them_first) {
  fill();
  SeqHandle older = written(1, 48), over = written(2, 48), newer = written(3, 48);
  ASSERT_EQ(hint(over, KVC_HINT_DONE), KVC_OK) << error.message;
  older.reset();
  evict(1);
  EXPECT_EQ(held(2, 48), 48u) << "not before it is released";
  over.reset(), newer.reset();
  for (const uint64_t left : {32, 16, 0}) {
    evict(1);
    EXPECT_EQ(held(2, 48), left);
  }
  EXPECT_EQ(held(1, 48), 48u);
  EXPECT_EQ(held(3, 48), 48u);
}

TEST_F(HintTest, what_another_sequence_goes_on_from_stays) {
  fill();
  SeqHandle base = written(1, 32), over = fork(base);
  ASSERT_EQ(append(base, 1, 32, 48), KVC_OK) << error.message;
  ASSERT_EQ(append(over, 2, 32, 64), KVC_OK) << error.message;
  ASSERT_EQ(hint(over, KVC_HINT_DONE), KVC_OK) << error.message;
  base.reset(), over.reset();
  evict(3);
  EXPECT_EQ(held(1, 48), 48u) << "the tail of two chunks went, then one by its age";
}

TEST_F(HintTest, what_is_held_or_used_again_is_as_any_other) {
  fill();
  SeqHandle over = written(1, 32), used = written(2, 32), kept = fork(over);
  ASSERT_EQ(hint(over, KVC_HINT_DONE), KVC_OK) << error.message;
  ASSERT_EQ(hint(used, KVC_HINT_DONE), KVC_OK) << error.message;
  over.reset(), used.reset();
  uint64_t length = 0;
  match(2, 32, &length).reset();
  EXPECT_EQ(length, 32u);
  evict(5);
  EXPECT_EQ(held(1, 32), 32u) << "a fork holds it";
  EXPECT_EQ(held(2, 32), 32u) << "it was used since";
}

TEST_F(HintTest, a_later_hint_takes_the_first_back) {
  fill();
  SeqHandle seq = written(1, 32);
  ASSERT_EQ(hint(seq, KVC_HINT_DONE), KVC_OK) << error.message;
  ASSERT_EQ(hint(seq, KVC_HINT_DONE), KVC_OK) << error.message;
  ASSERT_EQ(hint(seq, 0), KVC_OK) << error.message;
  seq.reset();
  evict(5);
  EXPECT_EQ(held(1, 32), 32u);
}

TEST_F(HintTest, priority_keeps_a_conversation_longer_and_not_for_ever) {
  fill();
  SeqHandle kept = written(1, 16), returns = written(2, 16), plain = written(3, 16);
  ASSERT_EQ(hint(kept, 0, 2), KVC_OK) << error.message;
  ASSERT_EQ(hint(returns, 0, 0, 60000), KVC_OK) << error.message;
  kept.reset(), returns.reset(), plain.reset();
  const auto evict_until_gone = [&](uint64_t writer) {
    uint64_t evicted = 0;
    for (; held(writer, 16) && evicted < 5000; evicted += 10) evict(10);
    return evicted;
  };
  evict_until_gone(3);
  EXPECT_EQ(held(1, 16), 16u);
  EXPECT_EQ(held(2, 16), 16u) << "one that goes on counts as one step of priority";
  EXPECT_LT(evict_until_gone(2), 5000u);
  EXPECT_EQ(held(1, 16), 16u) << "two steps are more than one";
  EXPECT_LT(evict_until_gone(1), 5000u);
}

TEST_F(HintTest, a_lapse_counts_priority_too_and_a_conversation_that_is_over_waits_for_its_release) {
  fill();
  SeqHandle kept = written(1, 16), over = written(2, 16);
  ASSERT_EQ(hint(kept, 0, 5), KVC_OK) << error.message;
  ASSERT_EQ(hint(over, KVC_HINT_DONE), KVC_OK) << error.message;
  clock.advance_ms(1001);
  pressure();
  expect_rows(kept, 0, 16, 1);
  expect_refused(append(over, 2, 16, 17), KVC_ERR_GONE, {"0 are left"});
}

TEST_F(HintTest, a_conversation_without_chunks_and_private_ones_leave_nothing_behind) {
  for (const uint64_t tokens : {0, 7, 40})
    for (const uint32_t flags : {0u, static_cast<uint32_t>(KVC_SEQ_PRIVATE)}) {
      SeqHandle seq = create(flags);
      if (tokens) {
        ASSERT_EQ(append(seq, tokens + flags, 0, tokens), KVC_OK) << error.message;
      }
      ASSERT_EQ(hint(seq, KVC_HINT_DONE), KVC_OK) << error.message;
      ASSERT_EQ(kvc_seq_compact(seq, nullptr, 0, &error), KVC_OK) << error.message;
    }
  EXPECT_EQ(info().memory_pinned, 0u);
  pressure();
}

TEST_F(HintTest, thousands_of_hints_whose_chunks_are_long_gone_take_no_memory) {
  const auto bytes = [&] { return internals(store).metadata().used_bytes(); };
  uint64_t before = 0;
  for (uint64_t i = 0; i < 3000; i++) {
    if (i == 1500) before = bytes();
    SeqHandle seq = written(1, 16);
    ASSERT_EQ(hint(seq, KVC_HINT_DONE), KVC_OK) << error.message;
  }
  EXPECT_EQ(bytes(), before);
}

#ifdef KVC_FAULTS
TEST_F(HintTest, what_is_refused_names_the_value) {
  SeqHandle seq = written(1, 16);
  expect_refused(hint(seq, 6), KVC_ERR_TOO_NEW, {"0x6"});
  expect_refused(kvc_seq_hint(seq, nullptr, &error), KVC_ERR_ARGUMENT, {"hint is NULL"});
  auto h = sized<kvc_hint>();
  h.size = 0;
  expect_refused(kvc_seq_hint(seq, &h, &error), KVC_ERR_ARGUMENT, {"hint.size 0"});
  ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", 1, 1));
  EXPECT_EQ(hint(seq, KVC_HINT_DONE), KVC_ERR_NO_MEMORY);
  kvc::base::fault_disarm_all();
  ASSERT_EQ(hint(seq, KVC_HINT_DONE, 9, 9), KVC_OK) << error.message;
}
#endif

}  // namespace
