#include "store/ages.h"

#include <algorithm>

namespace kvc::store {

void Ages::note(uint64_t tick, uint64_t now_ns) {
  if (count_) {
    Sample &last = samples_[count_ - 1];
    if (tick <= last.tick || now_ns < last.end_ns) return;
    if (now_ns - last.begin_ns < grain_ns) {
      last.tick = tick;
      last.end_ns = now_ns;
      return;
    }
  }
  if (count_ == sample_max) merge(now_ns);
  samples_[count_++] = {tick, now_ns, now_ns};
}

void Ages::note_late(uint64_t tick, uint64_t then_ns, uint64_t now_ns) {
  if (count_ == sample_max) merge(now_ns);
  const auto end = samples_.begin() + count_;
  const auto at = std::lower_bound(samples_.begin(), end, tick, [](const Sample &s, uint64_t t) { return s.tick < t; });
  const bool known = at != end && at->end_ns <= then_ns, blurred = at != samples_.begin() && std::prev(at)->end_ns > then_ns;
  if (known || blurred) return;
  std::copy_backward(at, end, end + 1);
  *at = {tick, then_ns, then_ns};
  count_++;
}

void Ages::merge(uint64_t now_ns) {
  uint32_t best = 0;
  double least = 0;
  for (uint32_t i = 0; i + 1 < count_; i++) {
    const double blur = static_cast<double>(samples_[i + 1].end_ns - samples_[i].begin_ns) / static_cast<double>(now_ns - samples_[i + 1].end_ns + grain_ns);
    if (i == 0 || blur < least) best = i, least = blur;
  }
  samples_[best + 1].begin_ns = samples_[best].begin_ns;
  std::copy(samples_.begin() + best + 1, samples_.begin() + count_, samples_.begin() + best);
  count_--;
}

uint64_t Ages::tick_by(uint64_t time_ns) const {
  const auto end = samples_.begin() + count_;
  const auto after = std::upper_bound(samples_.begin(), end, time_ns, [](uint64_t time, const Sample &s) { return time < s.end_ns; });
  return after == samples_.begin() ? 0 : std::prev(after)->tick;
}

uint64_t Ages::drawn_by(uint64_t tick) const {
  const auto end = samples_.begin() + count_;
  const auto at = std::lower_bound(samples_.begin(), end, tick, [](const Sample &s, uint64_t t) { return s.tick < t; });
  return at == end ? UINT64_MAX : at->end_ns;
}

}  // namespace kvc::store
