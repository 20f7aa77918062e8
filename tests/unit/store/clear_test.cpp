#include "limited_host.h"

/// kvc_scope_clear: what nobody holds goes, what is held goes with its holders, nobody finds either, and other scopes do not notice.
namespace {

using namespace kvc_test;

struct ClearTest : testing::Test, LimitedHost {
  ScopeHandle mine = scope("mine"), other = scope("other");

  kvc_result clear() {
    auto result = sized<kvc_result>();
    EXPECT_EQ(kvc_scope_clear(&result, mine, nullptr, &error), KVC_OK) << error.message;
    EXPECT_EQ(result.operation, static_cast<uint32_t>(KVC_OP_SCOPE_CLEAR));
    return result;
  }
};

TEST_F(ClearTest, everything_that_nobody_holds_goes_and_other_scopes_keep_theirs) {
  for (int32_t p = 0; p < 3; p++) {
    prompt(mine, p, 4);
    prompt(other, p, 4);
  }
  ASSERT_EQ(put(mine, "a", 5000), KVC_OK) << error.message;
  ASSERT_EQ(put(other, "a", 5000), KVC_OK) << error.message;
  const uint64_t used = info().memory_used, bytes = info(mine).bytes_host;
  const kvc_result result = clear();
  EXPECT_EQ(result.done, 13u);
  EXPECT_EQ(result.bytes, bytes);
  EXPECT_EQ(info().memory_used, used - bytes);
  EXPECT_EQ(info(mine).chunk_count + info(mine).object_count + info(mine).bytes_host, 0u);
  EXPECT_EQ(info(other).chunk_count, 12u);
  EXPECT_EQ(info(other).object_count, 1u);
  for (int32_t p = 0; p < 3; p++) {
    EXPECT_EQ(found(mine, p), 0u);
    EXPECT_EQ(found(other, p), 4u);
  }
  EXPECT_EQ(get(mine, "a"), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(get(other, "a"), KVC_OK);
  EXPECT_EQ(clear().done, 0u);
}

TEST_F(ClearTest, what_a_sequence_holds_is_read_on_by_it_found_by_nobody_and_goes_with_it) {
  SeqHandle seq = prompt(mine, 1, 4), fork;
  prompt(mine, 1, 8);
  auto state = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&state, seq, &error), KVC_OK);
  EXPECT_EQ(state.tokens_shareable, 4 * chunk_tokens);
  EXPECT_EQ(clear().done, 4u);
  EXPECT_EQ(found(mine, 1), 0u);
  ASSERT_EQ(kvc_seq_get_info(&state, seq, &error), KVC_OK);
  EXPECT_EQ(state.tokens_shareable, 0u);
  EXPECT_EQ(gather(seq, 4 * chunk_tokens), KVC_OK) << error.message;
  const auto all = ids(6 * chunk_tokens, 1);
  ASSERT_EQ(append(seq, all, 4 * chunk_tokens, 6 * chunk_tokens), KVC_OK) << error.message;
  EXPECT_EQ(gather(seq, 6 * chunk_tokens), KVC_OK) << error.message;
  EXPECT_EQ(found(mine, 1), 0u) << "sealed behind what was cleared";
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &error), KVC_OK) << error.message;
  seq.reset();
  EXPECT_EQ(gather(fork, 6 * chunk_tokens), KVC_OK) << error.message;
  EXPECT_EQ(info(mine).chunk_count, 6u);
  fork.reset();
  EXPECT_EQ(info(mine).chunk_count, 0u);
  EXPECT_EQ(info().memory_used, 0u);
}

TEST_F(ClearTest, the_same_prompt_can_be_stored_again_while_the_old_one_is_held) {
  SeqHandle old = prompt(mine, 1, 4);
  clear();
  SeqHandle fresh = prompt(mine, 1, 4);
  EXPECT_EQ(found(mine, 1), 4u);
  EXPECT_EQ(info(mine).chunk_count, 8u);
  old.reset();
  EXPECT_EQ(info(mine).chunk_count, 4u);
  EXPECT_EQ(found(mine, 1), 4u);
}

TEST_F(ClearTest, a_lease_keeps_what_it_holds_until_it_ends) {
  LeaseHandle chunks, objects;
  ASSERT_EQ(kvc_seq_lease(chunks.out(), prompt(mine, 1, 4), 0, KVC_ALL, 5000, nullptr, &error), KVC_OK) << error.message;
  ASSERT_EQ(put(mine, "held", 3000), KVC_OK) << error.message;
  ASSERT_EQ(put(mine, "loose", 3000), KVC_OK) << error.message;
  ASSERT_TRUE(exists(mine, "held", &objects));
  EXPECT_EQ(clear().done, 1u);
  EXPECT_EQ(info(mine).chunk_count, 4u);
  EXPECT_EQ(info(mine).object_count, 1u);
  EXPECT_EQ(found(mine, 1), 0u);
  EXPECT_FALSE(exists(mine, "held"));
  objects.reset();
  EXPECT_EQ(info(mine).object_count, 0u);
  chunks.reset();
  EXPECT_EQ(info(mine).chunk_count, 0u);
}

TEST_F(ClearTest, a_lapsed_sequence_holds_nothing) {
  SeqHandle seq = prompt(mine, 1, 4);
  clock.advance_ms(1001);
  EXPECT_EQ(clear().done, 4u);
  EXPECT_EQ(gather(seq, chunk_tokens), KVC_ERR_GONE);
}

TEST_F(ClearTest, private_chunks_stay_with_their_sequence_and_go_once_it_lapsed) {
  SeqHandle seq;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  ASSERT_EQ(kvc_seq_create(seq.out(), mine, &options, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, ids(5 * chunk_tokens), 0, 5 * chunk_tokens), KVC_OK) << error.message;
  EXPECT_EQ(clear().done, 0u);
  EXPECT_EQ(gather(seq, 5 * chunk_tokens), KVC_OK) << error.message;
  clock.advance_ms(1001);
  EXPECT_EQ(clear().done, 5u);
  EXPECT_EQ(info().memory_used, 0u);
}

TEST_F(ClearTest, listed_keys_are_gone_from_the_list) {
  kvc_object_entry entries[4];
  size_t count = 0;
  LeaseHandle lease;
  for (const char *key : {"a", "b", "c"}) ASSERT_EQ(put(mine, key, 100), KVC_OK) << error.message;
  ASSERT_TRUE(exists(mine, "b", &lease));
  ASSERT_EQ(kvc_object_list(entries, 4, &count, mine, nullptr, 0, nullptr, &error), KVC_OK);
  ASSERT_EQ(count, 3u);
  clear();
  ASSERT_EQ(put(mine, "d", 100), KVC_OK) << error.message;
  ASSERT_EQ(kvc_object_list(entries, 4, &count, mine, nullptr, 0, nullptr, &error), KVC_OK);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(entries[0].key[0], 'd');
  lease.reset();
  EXPECT_EQ(info(mine).object_count, 1u);
}

TEST_F(ClearTest, a_call_that_cannot_be_made_clears_nothing) {
  ASSERT_EQ(put(mine, "a", 100), KVC_OK) << error.message;
  auto call = sized<kvc_call>();
  call.flags = 1u << 31;
  EXPECT_EQ(kvc_scope_clear(nullptr, mine, &call, &error), KVC_ERR_TOO_NEW) << error.message;
  EXPECT_EQ(kvc_scope_clear(nullptr, nullptr, nullptr, &error), KVC_ERR_MISUSE) << error.message;
  kvc_scope *gone = mine.release();
  ASSERT_EQ(kvc_scope_release(gone, nullptr), KVC_OK);
  EXPECT_EQ(kvc_scope_clear(nullptr, gone, nullptr, &error), KVC_ERR_STALE) << error.message;
  mine = scope("mine");
  EXPECT_EQ(get(mine, "a"), KVC_OK) << error.message;
}

}  // namespace
