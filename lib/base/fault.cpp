#include "base/fault.h"

#ifdef KVC_FAULTS

#include <algorithm>
#include <cstring>
#include <mutex>

namespace kvc::base {
namespace {

// Points are constructed by static initialisers in an order nobody knows: the head must be there before any of them.
constinit std::atomic<FaultPoint *> point_list{nullptr};

// Arming is two stores; one arming at a time.
constinit std::mutex arm_mutex;

uint64_t add_saturated(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

}  // namespace

FaultPoint::FaultPoint(const char *name) : name_(name) {
  next_ = point_list.load(std::memory_order_relaxed);
  while (!point_list.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool FaultPoint::fires(uint64_t pass, uint64_t end) {
  // fail_begin_ is stored before the fail_end_ that hit() has acquired.
  if (pass < fail_begin_.load(std::memory_order_relaxed) || pass >= end) return false;
  fired_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

FaultPoint *FaultPoint::find(const char *name) {
  for (FaultPoint *point = point_list.load(std::memory_order_acquire); point; point = point->next_) {
    if (strcmp(point->name_, name) == 0) return point;
  }
  return nullptr;
}

bool fault_arm(const char *name, uint64_t nth, uint64_t count) {
  FaultPoint *point = FaultPoint::find(name);
  if (!point || nth == 0 || count == 0) return false;
  const std::lock_guard lock(arm_mutex);
  point->fail_end_.store(0, std::memory_order_release);
  const uint64_t begin = add_saturated(point->passes_.load(std::memory_order_relaxed), nth);
  point->fail_begin_.store(begin, std::memory_order_relaxed);
  point->fail_end_.store(add_saturated(begin, count), std::memory_order_release);
  return true;
}

void fault_disarm_all() {
  const std::lock_guard lock(arm_mutex);
  for (FaultPoint *point = point_list.load(std::memory_order_acquire); point; point = point->next_) {
    point->fail_end_.store(0, std::memory_order_release);
  }
}

std::vector<std::string> fault_points() {
  std::vector<std::string> names;
  for (FaultPoint *point = point_list.load(std::memory_order_acquire); point; point = point->next_) names.emplace_back(point->name_);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> fault_points_never_fired() {
  std::vector<std::string> names;
  for (FaultPoint *point = point_list.load(std::memory_order_acquire); point; point = point->next_) {
    if (point->fired_.load(std::memory_order_relaxed) == 0) names.emplace_back(point->name_);
  }
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t fault_passes(const char *name) {
  const FaultPoint *point = FaultPoint::find(name);
  return point ? point->passes_.load(std::memory_order_relaxed) : 0;
}

}  // namespace kvc::base

#endif
