#pragma once
#include "base/clock.h"
#include "hybrid.h"
#include "seam_store.h"

namespace kvc_test {

struct ManualTime {
  kvc::base::ManualClock clock;
};

/// Of a small store, so that others push out what lapsed: leases last 1 s, by a clock that moves when told to.
struct LapsingHost : ManualTime, HybridHost {
  explicit LapsingHost(const std::vector<kvc_layer> &runs) : HybridHost(runs, KVC_F16, 16, 1u << 20) {
    scope.reset(), store.reset();
    auto options = options_of(1u << 20);
    options.lease_ms = 1000;
    store = open_with({.clock = &clock}, options);
    scope = make_scope("m", runs, KVC_F16, 16);
  }
  /// A sequence that was appended in so many steps, with a snapshot at the end of each.
  SeqHandle appended(const std::vector<int32_t> &tokens, std::initializer_list<uint64_t> ends) {
    SeqHandle seq = create();
    uint64_t begin = 0;
    for (const uint64_t end : ends) {
      EXPECT_EQ(append_all(seq, tokens, begin, end, 1), KVC_OK) << error.message;
      begin = end;
    }
    return seq;
  }
  void lapse() { clock.advance_ms(1001); }
  /// Sixteen tokens of another sequence, which is not held.
  void push(int32_t i) {
    SeqHandle other = create();
    ASSERT_EQ(append_all(other, ids(16, 100 + i), 0, 16, 9), KVC_OK) << error.message;
  }
};

}  // namespace kvc_test
