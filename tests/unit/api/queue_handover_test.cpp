#include "queue_host.h"

/// Calls that hand over and bring nearer, in a queue: each comes to what it would have come to on the spot.
namespace {

using namespace kvc_test;

struct QueuedHandover : testing::Test {
  Host host{{full_layers(1, 1, 8, 8)}, KVC_F16, 16};
  QueueHandle queue = make_queue(host.store);
  SeqHandle seq = host.create();
  Rows rows{20};

  void SetUp() override {
    ASSERT_EQ(host.append(seq, ids(20), {rows.fill(1, 0).describe(0)}), KVC_OK) << host.error.message;
  }
};

TEST_F(QueuedHandover, publish_and_attach_come_with_their_results_and_their_name_is_copied) {
  std::string name = "decode";
  kvc_call call = queued(queue, 7);
  ASSERT_EQ(kvc_seq_publish(seq, name.data(), name.size(), KVC_FOREVER, &call, &host.error), KVC_OK) << host.error.message;
  name = "xxxxxx";
  auto results = drain_until(queue, 1);
  EXPECT_EQ(results[0].status, KVC_OK) << results[0].message;
  EXPECT_EQ(results[0].operation, static_cast<uint32_t>(KVC_OP_PUBLISH));
  EXPECT_EQ(results[0].user, 7u);
  EXPECT_EQ(results[0].done, 20u);
  call.user = 8;
  ASSERT_EQ(kvc_seq_attach(nullptr, host.scope, "decode", 6, nullptr, &call, &host.error), KVC_OK) << host.error.message;
  results = drain_until(queue, 1);
  ASSERT_EQ(results[0].status, KVC_OK) << results[0].message;
  EXPECT_EQ(results[0].operation, static_cast<uint32_t>(KVC_OP_ATTACH));
  EXPECT_EQ(results[0].done, 20u);
  SeqHandle got(results[0].seq);
  Rows out(20);
  ASSERT_EQ(host.gather(got, {out.describe(0)}), KVC_OK) << host.error.message;
  EXPECT_EQ(out.wrong(1, 0), 20u);
}

TEST_F(QueuedHandover, an_attach_that_finds_nothing_says_so_in_its_result_and_bad_arguments_at_once) {
  kvc_call call = queued(queue);
  ASSERT_EQ(kvc_seq_attach(nullptr, host.scope, "none", 4, nullptr, &call, &host.error), KVC_OK) << host.error.message;
  const auto results = drain_until(queue, 1);
  EXPECT_EQ(results[0].status, KVC_ERR_NOT_FOUND);
  EXPECT_EQ(results[0].seq, nullptr);
  kvc_seq *out = nullptr;
  EXPECT_EQ(kvc_seq_attach(&out, host.scope, "none", 4, nullptr, &call, &host.error), KVC_ERR_ARGUMENT) << "its handle comes in the result";
  EXPECT_EQ(kvc_seq_publish(seq, "", 0, 0, &call, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_TRUE(drain(queue).empty());
}

TEST_F(QueuedHandover, a_sequence_attached_and_never_drained_is_let_go_with_its_queue) {
  kvc_call call = queued(queue);
  ASSERT_EQ(kvc_seq_publish(seq, "p", 1, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_attach(nullptr, host.scope, "p", 1, nullptr, &call, &host.error), KVC_OK) << host.error.message;
  queue.reset();
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
  EXPECT_EQ(info.seq_count, 1u);
}

TEST_F(QueuedHandover, reorder_and_compact_wait_for_the_calls_queued_before_them) {
  SeqHandle other = host.create();
  Rows more(4);
  more.fill(1, 20);
  const kvc_rows run = more.describe(20);
  const auto tokens = ids(24);
  kvc_call call = queued(queue, 0, KVC_CALL_MORE);
  ASSERT_EQ(kvc_append(seq, tokens.data() + 20, 4, &run, 1, &call, &host.error), KVC_OK) << host.error.message;
  kvc_seq *const seqs[] = {other, seq};
  const uint32_t source[] = {1, 1};
  ASSERT_EQ(kvc_seq_reorder(seqs, source, 2, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
  Rows out(24);
  ASSERT_EQ(host.gather(other, {out.describe(0)}), KVC_OK) << host.error.message;
  EXPECT_EQ(out.wrong(1, 0), 24u);
}

}  // namespace
