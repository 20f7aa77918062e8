// Calls that do not block: what is cancelled, dropped and released at any moment touches nothing afterwards.
#include <random>
#include <thread>

#include "api/queue_host.h"

namespace kvc_test {
namespace {

constexpr uint64_t kTokens = 128;

struct QueueField : testing::Test {
  Host host{{full_layers(1, 1, 8, 8)}, KVC_F16, 16, 4u << 20};
  std::vector<int32_t> tokens = ids(kTokens);
  SeqHandle seq = host.create();
  void SetUp() override {
    Rows rows(kTokens);
    ASSERT_EQ(host.append(seq, tokens, {rows.fill(1, 0).describe(0)}), KVC_OK) << host.error.message;
  }
};

TEST_F(QueueField, B13_every_promised_token_of_a_queued_gather_is_written) {
  QueueHandle queue = make_queue(host.store);
  for (uint64_t count = 1; count <= kTokens; count += 9) {
    Rows to(kTokens);
    kvc_rows rows = to.describe(0);
    rows.token_count = count;
    const kvc_call call = queued(queue, count);
    ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, &call, &host.error), KVC_OK) << host.error.message;
    const auto results = drain_until(queue, 1);
    ASSERT_EQ(results[0].status, KVC_OK) << results[0].message;
    EXPECT_EQ(results[0].done, count);
    EXPECT_EQ(to.wrong(1, 0), count);
    EXPECT_TRUE(std::all_of(to.k.begin() + static_cast<int64_t>(count) * 8, to.k.end(), [](uint16_t element) { return element == 0xDEAD; }));
  }
}

TEST_F(QueueField, B49_calls_cancelled_and_handles_released_at_any_moment_touch_nothing_once_it_is_said) {
  std::mt19937 random(49);
  uint64_t cancelled = 0, done = 0;
  for (int round = 0; round < 150; round++) {
    QueueHandle queue = make_queue(host.store, 64);
    std::vector<std::unique_ptr<Rows>> targets;
    std::vector<SeqHandle> seqs;
    std::thread([&] {  // the thread that made the calls is gone before they end
      ErrorText error;
      for (uint64_t user = 1; user <= 8; user++) {
        targets.push_back(std::make_unique<Rows>(kTokens));
        seqs.emplace_back();
        ASSERT_EQ(kvc_seq_fork(seqs.back().out(), seq, KVC_ALL, &error), KVC_OK) << error.message;
        const kvc_rows rows = targets.back()->describe(0);
        const kvc_call call = queued(queue, user, random() % 3 ? 0 : KVC_CALL_MORE);
        ASSERT_EQ(kvc_gather(nullptr, seqs.back(), &rows, 1, &call, &error), KVC_OK) << error.message;
      }
    }).join();
    for (SeqHandle &of : seqs)
      if (random() % 2) of.reset();  // queued calls run on
    for (uint64_t user = 1; user <= 8; user++)
      if (random() % 3 == 0) (void)kvc_queue_cancel(queue, user, nullptr);
    if (random() % 2) {
      for (const kvc_result &result : drain_until(queue, 8)) {
        ASSERT_TRUE(result.status == KVC_OK || result.status == KVC_ERR_CANCELLED) << result.message;
        (result.status == KVC_OK ? done : cancelled)++;
        if (result.status == KVC_OK) {
          ASSERT_EQ(targets[result.user - 1]->wrong(1, 0), kTokens);
        }
      }
    }
    queue.reset();
    // From here on the memory is the host's: under ASan nobody reads or writes what is freed, and what is kept does not change.
    std::vector<Rows> kept;
    for (const auto &target : targets) kept.push_back(*target);
    if (random() % 2) targets.clear();
    seqs.clear();
    for (size_t i = 0; i < targets.size(); i++) ASSERT_TRUE(targets[i]->k == kept[i].k && targets[i]->v == kept[i].v);
  }
  EXPECT_GT(done, 0u);
  EXPECT_GT(cancelled, 0u);
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
  EXPECT_EQ(info.seq_count, 1u);
}

}  // namespace
}  // namespace kvc_test
