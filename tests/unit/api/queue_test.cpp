#include <thread>

#include "queue_host.h"

/// Queued calls: what is promised of each, on stores with threads of their own and on host-driven ones.
namespace {

using namespace kvc_test;

struct Queues : testing::TestWithParam<bool> {
  static kvc_store_options options_of(bool host_driven) {
    kvc_store_options options = Host::options_of(16u << 20, host_driven ? static_cast<uint32_t>(KVC_OPEN_HOST_DRIVEN) : 0);
    options.queue_max = 4;
    return options;
  }
  Host host{options_of(GetParam()), {full_layers(1, 1, 8, 8)}, KVC_F16, 16};
  QueueHandle queue = make_queue(host.store);
  ErrorText error;
};
INSTANTIATE_TEST_SUITE_P(, Queues, testing::Bool(), [](const auto &param) { return param.param ? "host_driven" : "threads"; });

TEST_P(Queues, an_append_a_gather_and_a_match_give_one_result_each_with_what_they_did) {
  SeqHandle seq = host.create();
  const auto tokens = ids(40);
  Rows in(40), out(40);
  const kvc_rows write = in.fill(1, 0).describe(0), read = out.describe(0);
  auto info = sized<kvc_match_info>();
  kvc_call call = queued(queue, 11);
  ASSERT_EQ(kvc_append(seq, tokens.data(), 40, &write, 1, &call, &error), KVC_OK) << error.message;
  call.user = 12;
  ASSERT_EQ(kvc_gather(nullptr, seq, &read, 1, &call, &error), KVC_OK) << error.message;
  std::map<uint64_t, kvc_result> by_user;
  for (const kvc_result &r : drain_until(queue, 2)) by_user[r.user] = r;
  call.user = 13;
  ASSERT_EQ(kvc_match(nullptr, &info, host.scope, tokens.data(), 40, nullptr, &call, &error), KVC_OK) << error.message;
  for (const kvc_result &r : drain_until(queue, 1)) by_user[r.user] = r;
  ASSERT_EQ(by_user.size(), 3u);
  for (const auto &[user, r] : by_user) {
    EXPECT_EQ(r.status, KVC_OK) << user << ": " << r.message;
    EXPECT_EQ(r.size, sizeof(kvc_result));
    EXPECT_EQ(r.operation, user == 11 ? KVC_OP_APPEND : user == 12 ? KVC_OP_GATHER : KVC_OP_MATCH);
    EXPECT_STREQ(r.message, "");
    EXPECT_EQ(r.seq != nullptr, user == 13) << "only a match gives a sequence";
  }
  EXPECT_EQ(by_user[12].done, 40u);
  EXPECT_EQ(by_user[12].bytes, 40u * 8 * 2 * 2);
  EXPECT_EQ(out.wrong(1, 0), 40u);
  EXPECT_EQ(by_user[13].done, 32u) << "the match found two chunks of 16";
  EXPECT_EQ(info.tokens, 32u);
  SeqHandle matched(by_user[13].seq);
  Rows again(32);
  EXPECT_EQ(host.gather(matched, {again.describe(0)}), KVC_OK);
  EXPECT_EQ(again.wrong(1, 0), 32u);
  EXPECT_EQ(drain(queue).size(), 0u) << "no result comes twice";
}

TEST_P(Queues, the_descriptor_is_readable_while_results_wait_and_only_then) {
  int fd = -1;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, &error), KVC_OK);
  EXPECT_FALSE(readable(fd));
  SeqHandle seq = host.create();
  const auto tokens = ids(3);
  const kvc_call call = queued(queue);
  for (int i = 0; i < 3; i++) ASSERT_EQ(kvc_append(seq, &tokens[i], 1, nullptr, 0, &call, &error), KVC_OK) << error.message;
  if (GetParam()) {
    uint32_t more = 7;
    EXPECT_FALSE(readable(fd)) << "nobody has worked";
    ASSERT_EQ(kvc_store_step(&more, host.store, 1000000, &error), KVC_OK);
    EXPECT_EQ(more, 0u);
    EXPECT_TRUE(readable(fd));
  } else {
    pollfd p = {fd, POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 10000), 1);
  }
  size_t got = drain(queue, 1000000, 1).size();
  EXPECT_EQ(got, 1u);
  while (got < 3) got += drain(queue, 1000000, 1).size();
  EXPECT_FALSE(readable(fd));
}

TEST_P(Queues, handles_in_the_wrong_place_are_refused_and_give_no_result) {
  SeqHandle seq = host.create();
  Host other({full_layers(1, 1, 8, 8)});
  const int32_t token = 1;
  kvc_seq *out = nullptr;
  kvc_call call = queued(queue);
  EXPECT_EQ(kvc_match(&out, nullptr, host.scope, &token, 1, nullptr, &call, &error), KVC_ERR_ARGUMENT) << "a handle output must be NULL";
  EXPECT_EQ(kvc_match(nullptr, nullptr, other.scope, &token, 1, nullptr, &call, &error), KVC_ERR_MISUSE) << "a scope of another store";
  SeqHandle foreign = other.create();
  EXPECT_EQ(kvc_append(foreign, &token, 1, nullptr, 0, &call, &error), KVC_ERR_MISUSE) << "a sequence of another store";
  EXPECT_EQ(kvc_append(nullptr, &token, 1, nullptr, 0, &call, &error), KVC_ERR_MISUSE);
  call.queue = reinterpret_cast<kvc_queue *>(seq.release());
  EXPECT_EQ(kvc_append(nullptr, &token, 1, nullptr, 0, &call, &error), KVC_ERR_MISUSE) << "not a queue";
  kvc_seq_release(reinterpret_cast<kvc_seq *>(call.queue), nullptr);
  kvc_queue *gone = queue.release();
  ASSERT_EQ(kvc_queue_release(gone, &error), KVC_OK);
  call.queue = gone;
  EXPECT_EQ(kvc_match(nullptr, nullptr, host.scope, &token, 1, nullptr, &call, &error), KVC_ERR_STALE);
  EXPECT_EQ(kvc_queue_release(gone, &error), KVC_ERR_STALE);
}

}  // namespace
