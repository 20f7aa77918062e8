#include <atomic>

#include "base/clock.h"
#include "seam_store.h"

/// When a store looks for leases that lapsed.  A clock that is put back for a moment makes one that is overdue without a look being due:
/// whether it lapses tells whether somebody looked.
namespace {

using namespace kvc_test;

struct SetClock final : kvc::base::Clock {
  std::atomic<uint64_t> ns{100'000'000'000};
  uint64_t now_ns() const override { return ns; }
};

struct ReapTest : testing::Test {
  SetClock clock;
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;
  std::vector<uint16_t> memory = std::vector<uint16_t>(64 * 16, 3);

  void SetUp() override {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = 1u << 20;
    store = open_with({.clock = &clock}, options);
    scope = make_scope(store, "m", {full_layers(1, 1, 16, 16)});
  }
  /// A sequence of `tokens` with a lease of a second.
  SeqHandle sequence(int32_t salt, size_t tokens) {
    auto options = sized<kvc_seq_options>();
    options.lease_ms = 1000;
    SeqHandle seq;
    EXPECT_EQ(kvc_seq_create(seq.out(), scope, &options, &error), KVC_OK) << error.message;
    if (!tokens) return seq;
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = tokens;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
    EXPECT_EQ(kvc_append(seq, ids(tokens, salt).data(), tokens, &rows, 1, nullptr, &error), KVC_OK) << error.message;
    return seq;
  }
  SeqHandle overdue(int32_t salt) {
    clock.ns -= 10'000'000'000;
    SeqHandle seq = sequence(salt, 64);
    clock.ns += 10'000'000'000;
    return seq;
  }
  void look_if_due() {
    auto info = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&info, store, &error), KVC_OK) << error.message;
  }
  uint64_t lapsed() {
    auto metrics = sized<kvc_metrics>();
    EXPECT_EQ(kvc_metrics_read(&metrics, store, &error), KVC_OK) << error.message;
    return metrics.lapsed_leases;
  }
};

TEST_F(ReapTest, sequences_that_lapsed_or_hold_nothing_make_nobody_look_again) {
  const SeqHandle lapses = sequence(0, 64), holds_nothing = sequence(1, 0);
  clock.ns += 2'000'000'000;
  look_if_due();
  ASSERT_EQ(lapsed(), 1u);
  clock.ns += 2'000'000;
  look_if_due();
  const SeqHandle probe = overdue(2);
  look_if_due();
  EXPECT_EQ(lapsed(), 1u) << "looked at every handle again";
  clock.ns += 1'000'000;
  look_if_due();
  EXPECT_EQ(lapsed(), 2u);
}

TEST_F(ReapTest, a_sequence_whose_lease_ended_within_a_call_is_looked_at_until_the_call_ends) {
  const SeqHandle seq = sequence(0, 64);
  const auto token = kvc::base::token_unpack(reinterpret_cast<uint64_t>(static_cast<kvc_seq *>(seq)));
  kvc::base::HandleTable &handles = internals(store).seqs();
  void *object = nullptr;
  ASSERT_EQ(handles.enter_shared(&object, token), KVC_OK);
  clock.ns += 2'000'000'000;
  look_if_due();
  EXPECT_EQ(lapsed(), 0u);
  EXPECT_FALSE(handles.leave_shared(token));
  look_if_due();
  EXPECT_EQ(lapsed(), 1u);
}

}  // namespace
