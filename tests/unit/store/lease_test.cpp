#include "base/fault.h"
#include "stamped_store.h"

/// Leases of their own: a prompt pinned for an hour, or until it is let go.
namespace {

using namespace kvc_test;

struct LeaseTest : StampedStore {
  void SetUp() override { open(); }
  LeaseHandle lease(const kvc_seq *seq, uint64_t begin, uint64_t count, uint64_t ms) {
    LeaseHandle out;
    EXPECT_EQ(kvc_seq_lease(out.out(), seq, begin, count, ms, nullptr, &error), KVC_OK) << error.message;
    return out;
  }
  uint64_t held(uint64_t writer, uint64_t tokens) {
    uint64_t length = 0;
    match(writer, tokens, &length).reset();
    return length;
  }
  static constexpr uint64_t hour_ms = 3600000;
};

TEST_F(LeaseTest, a_prompt_is_pinned_for_an_hour_whatever_becomes_of_its_sequence) {
  SeqHandle seq = written(1, 48);
  LeaseHandle pin = lease(seq, 0, 32, hour_ms);
  seq.reset(), scope.reset();
  scope = make_scope("stamped");
  clock.advance_ms(hour_ms - 1);
  pressure();
  EXPECT_GT(info().memory_pinned, 0u);
  SeqHandle again = create();
  uint64_t length = 0;
  again = match(1, 48, &length);
  EXPECT_EQ(length, 32u) << "what it did not cover is evicted";
  expect_rows(again, 0, 32, 1);
  again.reset();
  clock.advance_ms(1);
  EXPECT_EQ(info().memory_pinned, 0u);
  pressure();
  EXPECT_EQ(held(1, 48), 0u);
  expect_refused(kvc_lease_renew(pin, 1, &error), KVC_ERR_GONE, {"lapsed"});
}

TEST_F(LeaseTest, one_for_ever_ends_by_its_release_alone) {
  SeqHandle seq = written(1, 32);
  LeaseHandle pin = lease(seq, 0, KVC_ALL, KVC_FOREVER);
  seq.reset();
  clock.advance_ms(1ull << 41);
  pressure();
  EXPECT_EQ(held(1, 32), 32u);
  ASSERT_EQ(kvc_lease_renew(pin, 100, &error), KVC_OK) << "to an end: " << error.message;
  clock.advance_ms(100);
  pressure();
  EXPECT_EQ(held(1, 32), 0u);
}

TEST_F(LeaseTest, a_lease_of_0_is_the_stores_and_a_renewal_counts_from_now) {
  SeqHandle seq = written(1, 32);
  LeaseHandle pin = lease(seq, 0, KVC_ALL, 0);
  seq.reset();
  for (int i = 0; i < 5; i++) {
    clock.advance_ms(900);
    EXPECT_GT(info().memory_pinned, 0u);
    ASSERT_EQ(kvc_lease_renew(pin, 0, &error), KVC_OK) << error.message;
  }
  clock.advance_ms(1000);
  EXPECT_EQ(info().memory_pinned, 0u);
  ASSERT_EQ(kvc_lease_renew(pin, KVC_FOREVER, &error), KVC_OK) << "lapsed, and nothing went: " << error.message;
  pressure();
  EXPECT_EQ(held(1, 32), 32u);
}

TEST_F(LeaseTest, it_covers_the_sealed_chunks_its_range_touches_and_what_leads_to_them) {
  SeqHandle seq = written(1, 72);
  LeaseHandle pin = lease(seq, 33, 10, hour_ms);
  seq.reset();
  pressure();
  EXPECT_EQ(held(1, 72), 48u);
  pin.reset();
  EXPECT_EQ(info().memory_pinned, 0u);
  seq = written(2, 10);
  pin = lease(seq, 0, KVC_ALL, hour_ms);
  EXPECT_EQ(info().lease_count, 1u);
  seq.reset();
  EXPECT_EQ(info().memory_pinned, 0u) << "open rows have no name to be found by";
}

TEST_F(LeaseTest, two_leases_on_the_same_chunks_end_apart) {
  SeqHandle seq = written(1, 32);
  LeaseHandle first = lease(seq, 0, KVC_ALL, 500), second = lease(seq, 0, KVC_ALL, hour_ms);
  seq.reset();
  clock.advance_ms(501);
  pressure();
  EXPECT_EQ(held(1, 32), 32u);
  ASSERT_EQ(kvc_lease_renew(first, 500, &error), KVC_OK) << "the other held it: " << error.message;
  second.reset(), first.reset();
  pressure();
  EXPECT_EQ(held(1, 32), 0u);
}

TEST_F(LeaseTest, private_chunks_are_held_and_go_with_the_last_lease) {
  SeqHandle seq = written(1, 32, KVC_SEQ_PRIVATE);
  LeaseHandle pin = lease(seq, 0, KVC_ALL, hour_ms);
  seq.reset();
  EXPECT_EQ(info().chunk_count, 2u);
  pin.reset();
  EXPECT_EQ(info().chunk_count, 0u);
}

TEST_F(LeaseTest, what_is_refused_names_the_value_and_holds_nothing) {
  SeqHandle seq = written(1, 40);
  auto *out = reinterpret_cast<kvc_lease *>(7);
  expect_refused(kvc_seq_lease(&out, seq, 41, 1, 0, nullptr, &error), KVC_ERR_RANGE, {"41", "40"});
  EXPECT_EQ(out, nullptr);
  expect_refused(kvc_seq_lease(&out, seq, 30, 11, 0, nullptr, &error), KVC_ERR_RANGE, {"[30, +11)", "40"});
  expect_refused(kvc_seq_lease(&out, seq, 30, 0, 0, nullptr, &error), KVC_ERR_ARGUMENT, {"token_count 0"});
  expect_refused(kvc_seq_lease(nullptr, seq, 0, 1, 0, nullptr, &error), KVC_ERR_ARGUMENT, {"out is NULL"});
  EXPECT_EQ(info().lease_count, 0u);
  clock.advance_ms(1001);
  pressure();
  expect_refused(kvc_seq_lease(&out, seq, 0, KVC_ALL, 0, nullptr, &error), KVC_ERR_GONE, {"0 are left"});
}

#ifdef KVC_FAULTS
TEST_F(LeaseTest, refused_memory_at_any_point_holds_nothing) {
  SeqHandle seq = written(1, 32);
  for (uint64_t nth = 1;; nth++) {
    ASSERT_LT(nth, 20u);
    LeaseHandle out;
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
    const kvc_status status = kvc_seq_lease(out.out(), seq, 0, KVC_ALL, 0, nullptr, &error);
    kvc::base::fault_disarm_all();
    if (status == KVC_OK) {
      EXPECT_GT(nth, 2u);
      break;
    }
    EXPECT_EQ(status, KVC_ERR_NO_MEMORY);
    EXPECT_EQ(info().lease_count, 0u);
  }
  seq.reset();
  EXPECT_EQ(info().memory_pinned, 0u);
}
#endif

}  // namespace
