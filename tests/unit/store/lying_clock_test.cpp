#include <algorithm>

#include "../api/queue_host.h"
#include "../base/lying_clock.h"
#include "stamped_store.h"

/// A clock that goes back, stands still, or is at its end: nothing that is held goes early, no call hangs, no number is absurd.
namespace {

using namespace kvc_test;

struct LyingClockTest : StampedStore {
  LyingClock lying{clock};
  std::vector<std::string> lines;

  void open_lying(uint64_t memory_bytes = 1u << 20) {
    clock.advance_ms(10 * 3600 * 1000);
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes, options.lease_ms = 1000, options.worker_count = 1;
    options.log = [](uint32_t, const char *line, void *context) { static_cast<std::vector<std::string> *>(context)->push_back(line); };
    options.log_context = &lines;
    store = open_with({.clock = &lying}, options);
    scope = make_scope("stamped");
  }
  double byte_seconds() {
    auto out = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_scope_get_info(&out, scope, &error), KVC_OK) << error.message;
    return out.byte_seconds_host;
  }
  kvc_status put(const std::string &key, size_t bytes, uint64_t ttl_ms = 0, const kvc_call *call = nullptr) {
    value.assign(bytes, 7);
    part = {value.data(), value.size()};
    object = {};
    object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
    auto options = sized<kvc_object_options>();
    options.ttl_ms = ttl_ms;
    return kvc_object_put(nullptr, scope, &object, 1, &options, call, &error);
  }
  std::vector<uint8_t> value;
  kvc_bytes part{};
  kvc_object object{};
};

TEST_F(LyingClockTest, a_clock_that_goes_back_takes_nothing_that_is_held_and_counts_no_time_twice) {
  open_lying();
  SeqHandle seq = written(1, 40);
  ASSERT_EQ(put("mine", 100, 5000), KVC_OK) << error.message;
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, KVC_ALL, 2000, nullptr, &error), KVC_OK) << error.message;
  clock.advance_ms(900);
  const double before = byte_seconds();
  EXPECT_GT(before, 0);
  lying.set_back_ms(3600 * 1000);
  EXPECT_EQ(byte_seconds(), before);
  pressure();
  expect_rows(seq, 0, 40, 1);
  EXPECT_GE(byte_seconds(), before);
  EXPECT_LT(byte_seconds(), before + 1e6) << "a store of 1 MiB for less than a second";
  clock.advance_ms(900);
  pressure();
  expect_rows(seq, 0, 40, 1);
  EXPECT_EQ(kvc_lease_renew(lease, 1000, &error), KVC_OK) << error.message;
  lying.set_ahead_ns(0);
  expect_rows(seq, 0, 40, 1);
  clock.advance_ms(100);
  EXPECT_LT(byte_seconds(), before + 4e6);
  EXPECT_EQ(kvc_store_verify(nullptr, store, nullptr, &error), KVC_OK) << error.message;
}

TEST_F(LyingClockTest, a_clock_that_goes_back_does_not_keep_the_log_quiet_until_it_is_there_again) {
  open_lying();
  const auto refused = [&] { return std::count_if(lines.begin(), lines.end(), [](const std::string &line) { return line.find("memory_bytes") != std::string::npos; }); };
  ASSERT_EQ(put("large", 8u << 20), KVC_ERR_FULL);
  ASSERT_EQ(put("large", 8u << 20), KVC_ERR_FULL);
  EXPECT_EQ(refused(), 1);
  lying.set_back_ms(3600 * 1000);
  ASSERT_EQ(put("large", 8u << 20), KVC_ERR_FULL);
  EXPECT_EQ(refused(), 2);
}

TEST_F(LyingClockTest, while_a_clock_stands_still_nothing_lapses_and_queued_calls_end) {
  open_lying();
  QueueHandle queue = make_queue(store);
  SeqHandle seq = written(1, 40);
  lying.stand_still();
  clock.advance_ms(3600 * 1000);
  pressure();
  expect_rows(seq, 0, 40, 1);
  const kvc_call call = queued(queue, 1, 0, 1);
  ASSERT_EQ(put("queued", 100, 0, &call), KVC_OK) << error.message;
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
  EXPECT_TRUE(drain(queue, 1000).empty()) << "a drain ends by a clock of its own";
  lying.go_on();
  pressure();
  auto rows = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&rows, seq, &error), KVC_OK) << error.message;
  EXPECT_EQ(rows.tokens_held, 0u) << "an hour has passed at once";
}

TEST_F(LyingClockTest, at_the_end_of_time_deadlines_stay_ahead) {
  open_lying();
  QueueHandle queue = make_queue(store);
  lying.set_ahead_ns(UINT64_MAX - clock.now_ns() - 500000000u);  // half a second before its last
  SeqHandle seq = written(1, 40);
  ASSERT_EQ(put("mine", 100, 3600 * 1000), KVC_OK) << error.message;
  LeaseHandle lease, longest;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, KVC_ALL, 3600 * 1000, nullptr, &error), KVC_OK) << error.message;
  ASSERT_EQ(kvc_seq_lease(longest.out(), seq, 0, KVC_ALL, UINT64_MAX / 1000000u, nullptr, &error), KVC_OK) << error.message;
  const kvc_call call = queued(queue, 1, 0, 3600000000u);
  ASSERT_EQ(put("queued", 100, 0, &call), KVC_OK) << error.message;
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
  clock.advance_ms(400);
  pressure();
  expect_rows(seq, 0, 40, 1);
  EXPECT_EQ(kvc_lease_renew(lease, 3600 * 1000, &error), KVC_OK) << error.message;
}

}  // namespace
