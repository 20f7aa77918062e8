#pragma once
#include <array>
#include <cstdint>

namespace kvc::store {

/// When ticks were drawn: turns "not used since" into a tick, so that a node needs no time of its own.  What is known are samples, "all ticks up to
/// this were drawn by then"; what lies between two counts as drawn at the later one, so nothing is ever taken for older than it is.  When there are
/// too many the pair is merged that blurs least for its age: how late something is found to be old is a share of how old it is.
class Ages {
 public:
  static constexpr uint64_t grain_ns = 1000000;
  static constexpr uint32_t sample_max = 256;

  /// Every tick up to `tick` was drawn no later than `now_ns`.  Neither goes back.
  void note(uint64_t tick, uint64_t now_ns);
  /// The same of a moment in the past.
  void note_late(uint64_t tick, uint64_t then_ns, uint64_t now_ns);
  /// The last tick that is known to have been drawn by then; 0: none.
  uint64_t tick_by(uint64_t time_ns) const;
  /// When `tick` had been drawn at the latest; UINT64_MAX: nothing is known of it.
  uint64_t drawn_by(uint64_t tick) const;

 private:
  struct Sample {
    uint64_t tick, begin_ns, end_ns;
  };
  void merge(uint64_t now_ns);

  std::array<Sample, sample_max> samples_;
  uint32_t count_ = 0;
};

}  // namespace kvc::store
