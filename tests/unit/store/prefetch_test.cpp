#include "../api/queue_host.h"
#include "stamped_store.h"

/// Rows asked for ahead: in a store in memory what is held is there already, and the call says how far.
namespace {

using namespace kvc_test;

struct PrefetchTest : StampedStore {
  static kvc_rows place(uint64_t begin, uint64_t count, uint32_t layer = 0, uint32_t layer_count = layers) {
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = layer_count, rows.token_begin = begin, rows.token_count = count;
    return rows;
  }
  kvc_result result = sized<kvc_result>();
  kvc_status prefetch(const kvc_seq *seq, const std::vector<kvc_rows> &rows, uint32_t tier = KVC_TIER_HOST, uint32_t flags = 0) {
    result = sized<kvc_result>();
    auto call = sized<kvc_call>();
    call.flags = flags;
    return kvc_seq_prefetch(&result, seq, rows.data(), rows.size(), tier, &call, &error);
  }
};

TEST_F(PrefetchTest, what_is_held_is_there_open_rows_too_and_arrays_are_not_looked_at) {
  open();
  SeqHandle seq = written(1, 40);
  ASSERT_EQ(prefetch(seq, {place(0, KVC_ALL)}), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 40u);
  EXPECT_EQ(result.operation, static_cast<uint32_t>(KVC_OP_PREFETCH));
  EXPECT_EQ(result.bytes, 0u);
  ASSERT_EQ(prefetch(seq, {place(3, 10), place(10, 25, 1, 1)}), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 35u);
  kvc_rows odd = place(0, 20);
  odd.k.data = &odd, odd.k.bytes = 1, odd.block_tokens = 16, odd.slot_begin = 1u << 30;
  ASSERT_EQ(prefetch(seq, {odd}), KVC_OK) << error.message;
  const uint64_t list[] = {2, 0, 1};
  kvc_rows listed = place(0, 3);
  listed.token_list = list, listed.token_unit = 10;
  ASSERT_EQ(prefetch(seq, {listed}), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 3u);
}

TEST_F(PrefetchTest, what_went_after_a_lapse_ends_it_and_is_gone_unless_nobody_waits_to_hear_of_it) {
  open();
  SeqHandle seq = written(1, 48);
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, 16, KVC_FOREVER, nullptr, &error), KVC_OK) << error.message;
  clock.advance_ms(1001);
  pressure();
  expect_refused(prefetch(seq, {place(0, KVC_ALL)}), KVC_ERR_GONE, {"16"});
  EXPECT_EQ(result.done, 16u);
  expect_refused(prefetch(seq, {place(0, 10), place(4, 30, 1, 1)}), KVC_ERR_GONE, {"16"});
  EXPECT_EQ(result.done, 16u);
  ASSERT_EQ(prefetch(seq, {place(0, 16)}), KVC_OK) << error.message;
  const uint64_t list[] = {3, 20, 1};
  kvc_rows listed = place(0, 3);
  listed.token_list = list;
  EXPECT_EQ(prefetch(seq, {listed}), KVC_ERR_GONE);
  EXPECT_EQ(result.done, 1u);
  EXPECT_EQ(prefetch(seq, {place(0, KVC_ALL)}, KVC_TIER_HOST, KVC_CALL_DETACH), KVC_OK) << error.message;
}

TEST_F(PrefetchTest, what_nobody_waits_to_hear_of_does_not_wait_for_queued_calls_either) {
  open(1u << 20, KVC_OPEN_HOST_DRIVEN);
  SeqHandle seq = written(1, 40);
  QueueHandle queue = make_queue(store);
  int fd;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, &error), KVC_OK);
  const kvc_call call = queued(queue, 1);
  const int32_t id = 7;
  ASSERT_EQ(kvc_append(seq, &id, 1, nullptr, 0, &call, &error), KVC_OK) << error.message;
  EXPECT_EQ(prefetch(seq, {place(0, KVC_ALL)}, KVC_TIER_HOST, KVC_CALL_DETACH), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 0u);
  EXPECT_FALSE(readable(fd)) << "a call that waits does the work";
  EXPECT_EQ(prefetch(seq, {place(0, KVC_ALL)}), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 40u);
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(drain(queue).size(), 1u);
  EXPECT_EQ(prefetch(seq, {place(0, KVC_ALL)}, KVC_TIER_HOST, KVC_CALL_DETACH), KVC_OK) << error.message;
  EXPECT_EQ(result.done, 40u);
}

TEST_F(PrefetchTest, what_is_refused_names_the_value) {
  open();
  SeqHandle seq = written(1, 40);
  for (const uint32_t tier : {KVC_TIER_DEVICE, KVC_TIER_NVME, KVC_TIER_REMOTE}) {
    const std::string word = "tier " + std::to_string(tier);
    expect_refused(prefetch(seq, {place(0, 1)}, tier), KVC_ERR_UNSUPPORTED, {word.c_str()});
    expect_refused(prefetch(seq, {place(0, 1)}, tier, KVC_CALL_DETACH), KVC_ERR_UNSUPPORTED, {word.c_str()});
  }
  expect_refused(prefetch(seq, {place(0, 1)}, 0), KVC_ERR_ARGUMENT, {"tier 0"});
  expect_refused(prefetch(seq, {place(0, 1)}, 5), KVC_ERR_ARGUMENT, {"tier 5"});
  expect_refused(prefetch(seq, {}), KVC_ERR_ARGUMENT, {"row_count 0"});
  expect_refused(prefetch(seq, {place(0, 41)}), KVC_ERR_RANGE, {"41", "40 are filled"});
  expect_refused(prefetch(seq, {place(0, 0)}), KVC_ERR_ARGUMENT, {"token_count 0"});
  expect_refused(prefetch(seq, {place(0, 1, 3, 1)}), KVC_ERR_RANGE, {"layers [3"});
  expect_refused(prefetch(seq, {place(0, 1)}, KVC_TIER_HOST, 1u << 9), KVC_ERR_TOO_NEW, {"0x200"});
  auto call = sized<kvc_call>();
  call.flags = KVC_CALL_DETACH, call.queue = reinterpret_cast<kvc_queue *>(7);
  const kvc_rows rows = place(0, 1);
  expect_refused(kvc_seq_prefetch(nullptr, seq, &rows, 1, KVC_TIER_HOST, &call, &error), KVC_ERR_ARGUMENT, {"KVC_CALL_DETACH"});
}

TEST_F(PrefetchTest, a_match_may_name_the_host_tier_and_no_other) {
  open();
  SeqHandle seq = written(1, 40);
  const auto all = ids_of(1, 0, 40);
  auto options = sized<kvc_seq_options>();
  options.tier = KVC_TIER_HOST;
  SeqHandle got;
  auto found = sized<kvc_match_info>();
  ASSERT_EQ(kvc_match(got.out(), &found, scope, all.data(), all.size(), &options, nullptr, &error), KVC_OK) << error.message;
  EXPECT_EQ(found.tokens, 32u);
  kvc_seq *out = nullptr;
  options.tier = KVC_TIER_DEVICE;
  expect_refused(kvc_match(&out, nullptr, scope, all.data(), all.size(), &options, nullptr, &error), KVC_ERR_UNSUPPORTED, {"tier 1"});
  options.tier = 9;
  expect_refused(kvc_match(&out, nullptr, scope, all.data(), all.size(), &options, nullptr, &error), KVC_ERR_ARGUMENT, {"tier 9"});
}

}  // namespace
