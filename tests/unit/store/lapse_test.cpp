#include <atomic>
#include <thread>

#include "base/clock.h"
#include "seam_store.h"

/// What time does to holds: with a clock that moves when told to.
namespace {

using namespace kvc_test;

struct LapseTest : testing::Test {
  kvc::base::ManualClock clock;
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;
  std::vector<uint16_t> memory = std::vector<uint16_t>(64 * 16, 3);

  void open(uint64_t memory_bytes, uint32_t seq_max) {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = memory_bytes, options.seq_max = seq_max, options.lease_ms = 1000, options.open_bytes_max = memory_bytes;
    store = open_with({.clock = &clock}, options);
    scope = make_scope(store, "m", {full_layers(1, 1, 16, 16)});
  }
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t begin) {
    const auto rows = rows_of(tokens.size(), begin);
    return kvc_append(seq, tokens.data(), tokens.size(), &rows, 1, nullptr, &error);
  }
  kvc_rows rows_of(uint64_t tokens, uint64_t begin) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_begin = begin, rows.token_count = tokens;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
    return rows;
  }
  kvc_status gather(kvc_seq *seq, uint64_t tokens) {
    auto rows = rows_of(tokens, 0);
    rows.v.data = nullptr;
    return kvc_gather(nullptr, seq, &rows, 1, nullptr, &error);
  }
  kvc_store_info info() {
    auto out = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&out, store, &error), KVC_OK) << error.message;
    return out;
  }
};

TEST_F(LapseTest, B51_ten_thousand_matches_that_are_dropped_pin_nothing_once_their_leases_lapsed) {
  open(1u << 20, 20000);
  for (int32_t p = 0; p < 16; p++) {
    SeqHandle seq;
    ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
    ASSERT_EQ(append(seq, ids(64, p), 0), KVC_OK) << error.message;
  }
  EXPECT_EQ(info().memory_pinned, 0u);
  std::vector<kvc_seq *> dropped(10000);
  for (size_t i = 0; i < dropped.size(); i++) {
    const auto tokens = ids(64, static_cast<int32_t>(i % 16));
    auto match = sized<kvc_match_info>();
    ASSERT_EQ(kvc_match(&dropped[i], &match, scope, tokens.data(), tokens.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
    ASSERT_EQ(match.tokens, 64u);
  }
  EXPECT_EQ(info().memory_pinned, info().memory_used);
  EXPECT_EQ(info().seq_count, 10000u);
  clock.advance_ms(1001);
  EXPECT_EQ(info().memory_pinned, 0u);
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, store, &error), KVC_OK);
  EXPECT_EQ(metrics.lapsed_leases, 10000u);

  // The whole store can be used for others now, and what was dropped says so.
  const uint64_t before = metrics.evicted_chunks;
  for (int32_t p = 100; p < 600; p++) {
    SeqHandle seq;
    ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
    ASSERT_EQ(append(seq, ids(64, p), 0), KVC_OK) << error.message;
  }
  ASSERT_EQ(kvc_metrics_read(&metrics, store, &error), KVC_OK);
  EXPECT_GE(metrics.evicted_chunks, before + 16);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 1;
  rows.k.data = memory.data(), rows.k.bytes = memory.size() * 2;
  EXPECT_EQ(kvc_gather(nullptr, dropped[0], &rows, 1, nullptr, &error), KVC_ERR_GONE) << error.message;
  for (kvc_seq *seq : dropped) ASSERT_EQ(kvc_seq_release(seq, &error), KVC_OK) << error.message;
  EXPECT_EQ(info().seq_count, 0u);
}

TEST_F(LapseTest, the_limit_of_sequences_is_full_and_is_no_leak) {
  open(1u << 20, 8);
  std::vector<SeqHandle> held(8);
  for (SeqHandle &seq : held) ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK) << error.message;
  kvc_seq *more = reinterpret_cast<kvc_seq *>(1);
  EXPECT_EQ(kvc_seq_create(&more, scope, nullptr, &error), KVC_ERR_FULL);
  EXPECT_EQ(more, nullptr);
  EXPECT_NE(error.text().find("8 sequences"), std::string::npos) << error.message;
  const auto tokens = ids(64);
  EXPECT_EQ(kvc_match(&more, nullptr, scope, tokens.data(), tokens.size(), nullptr, nullptr, &error), KVC_ERR_FULL);
  EXPECT_EQ(kvc_seq_fork(&more, held[0], 0, &error), KVC_ERR_FULL);
  EXPECT_EQ(info().seq_count, 8u);
  EXPECT_EQ(info().memory_used, 0u);
  held[3].reset();
  EXPECT_EQ(kvc_seq_create(held[3].out(), scope, nullptr, &error), KVC_OK) << error.message;
}

TEST_F(LapseTest, a_lease_of_its_own_lapses_and_renews_while_its_chunks_are_held) {
  open(1u << 20, 8);
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
  ASSERT_EQ(append(seq, ids(64), 0), KVC_OK) << error.message;
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, KVC_ALL, 500, nullptr, &error), KVC_OK) << error.message;
  seq.reset();
  EXPECT_GT(info().memory_pinned, 0u);
  clock.advance_ms(501);
  EXPECT_EQ(info().memory_pinned, 0u);
  ASSERT_EQ(kvc_lease_renew(lease, 500, &error), KVC_OK) << error.message;
  EXPECT_GT(info().memory_pinned, 0u);
  clock.advance_ms(501);
  EXPECT_EQ(info().memory_pinned, 0u);
  for (int32_t p = 1; p < 400; p++) {
    ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
    ASSERT_EQ(append(seq, ids(64, p), 0), KVC_OK) << error.message;
  }
  EXPECT_EQ(kvc_lease_renew(lease, 500, &error), KVC_ERR_GONE);
  lease.reset();  // also when it had lapsed: KVC_OK
  EXPECT_EQ(info().lease_count, 0u);
}

TEST_F(LapseTest, a_chunk_that_was_cut_or_taken_over_is_let_go_too_and_is_taken_up_again) {
  for (const bool cut : {true, false}) {
    open(1u << 20, 8);
    SeqHandle seq, fork;
    ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
    ASSERT_EQ(append(seq, ids(64), 0), KVC_OK) << error.message;
    if (cut) {
      ASSERT_EQ(kvc_seq_truncate(seq, 40, &error), KVC_OK) << error.message;
    } else {
      const auto tokens = ids(64);
      SeqHandle writer = std::move(seq);
      ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
      ASSERT_EQ(kvc_append(seq, tokens.data(), tokens.size(), nullptr, 0, nullptr, &error), KVC_OK) << error.message;
      auto rows = rows_of(40, 0);
      ASSERT_EQ(kvc_append(seq, nullptr, 0, &rows, 1, nullptr, &error), KVC_OK) << error.message;
    }
    ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &error), KVC_OK) << error.message;
    const uint64_t pinned = info().memory_pinned;
    EXPECT_GT(pinned, 0u);
    clock.advance_ms(600);
    EXPECT_EQ(gather(fork, 40), KVC_OK) << error.message;
    clock.advance_ms(600);
    EXPECT_EQ(info().memory_pinned, pinned) << "the fork holds it still";
    clock.advance_ms(600);
    EXPECT_EQ(info().memory_pinned, 0u);
    EXPECT_EQ(gather(seq, 40), KVC_OK) << error.message;
    EXPECT_EQ(info().memory_pinned, pinned);
    clock.advance_ms(1001);
    EXPECT_EQ(info().memory_pinned, 0u);
    SeqHandle other;
    for (int32_t p = 1; p < 400; p++) {
      ASSERT_EQ(kvc_seq_create(other.out(), scope, nullptr, &error), KVC_OK);
      ASSERT_EQ(append(other, ids(64, p), 0), KVC_OK) << error.message;
    }
    auto of = sized<kvc_seq_info>();
    ASSERT_EQ(kvc_seq_get_info(&of, fork, &error), KVC_OK) << error.message;
    EXPECT_EQ(of.tokens_held, 0u);
    for (kvc_seq *gone : {static_cast<kvc_seq *>(seq), static_cast<kvc_seq *>(fork)}) {
      EXPECT_EQ(gather(gone, 40), KVC_ERR_GONE);
      EXPECT_EQ(append(gone, ids(8), 40), KVC_ERR_GONE) << error.message;
      EXPECT_EQ(kvc_seq_truncate(gone, 1, &error), KVC_ERR_GONE) << error.message;
      ASSERT_EQ(kvc_seq_truncate(gone, 0, &error), KVC_OK) << error.message;
      EXPECT_EQ(append(gone, ids(64), 0), KVC_OK) << error.message;
    }
    seq.reset(), fork.reset(), scope.reset(), other.reset(), store.reset();
  }
}

TEST_F(LapseTest, open_rows_that_the_host_wrote_outlive_the_lease) {
  open(1u << 20, 8);
  SeqHandle seq, other;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
  ASSERT_EQ(append(seq, ids(64), 0), KVC_OK) << error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 40, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, ids(8, 5), 40), KVC_OK) << error.message;  // the rows before it are copied
  clock.advance_ms(1001);
  for (int32_t p = 1; p < 400; p++) {
    ASSERT_EQ(kvc_seq_create(other.out(), scope, nullptr, &error), KVC_OK);
    ASSERT_EQ(append(other, ids(64, p), 0), KVC_OK) << error.message;
  }
  EXPECT_EQ(gather(seq, 48), KVC_OK) << error.message;
  EXPECT_EQ(append(seq, ids(16, 6), 48), KVC_OK) << error.message;
}

TEST_F(LapseTest, what_went_after_a_lapse_is_not_looked_at_by_a_save_while_others_store_in_its_place) {
  open(1u << 20, 8);
  SeqHandle seq, other;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK);
  ASSERT_EQ(append(seq, ids(64), 0), KVC_OK) << error.message;
  clock.advance_ms(1001);
  const auto store_others = [&](int32_t from) {
    for (int32_t p = from; p < from + 400; p++) {
      ASSERT_EQ(kvc_seq_create(other.out(), scope, nullptr, &error), KVC_OK);
      ASSERT_EQ(append(other, ids(64, p), 0), KVC_OK) << error.message;
    }
  };
  store_others(1);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> gone{0}, all{0};
  std::thread saves([&] {
    ErrorText why;
    for (; !done; all++) gone += kvc_seq_save(seq, "/proc/no/such/place", nullptr, &why) == KVC_ERR_GONE;
  });
  while (all == 0) std::this_thread::yield();
  store_others(1000);
  done = true;
  saves.join();
  EXPECT_EQ(gone, all);
}

}  // namespace
