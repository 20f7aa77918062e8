#pragma once

/// Fault points: named places where a test makes the world fail.  In builds without KVC_FAULTS they are the constant false.
///     if (KVC_FAULT("memory.slab.take")) return fail(error, KVC_ERR_FULL, "injected");
/// A point registers itself when the library is loaded (not when it is first reached), so that a run can list the points never hit.
/// Names are dotted, one place each; a point, its metric and its trace span share the name.
#ifdef KVC_FAULTS

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvc::base {

class FaultPoint {
 public:
  explicit FaultPoint(const char *name);
  FaultPoint(const FaultPoint &) = delete;
  FaultPoint &operator=(const FaultPoint &) = delete;

  /// Counts the pass; true when this pass is to fail.  Disarmed: a relaxed increment of the point's own counter and one load.
  bool hit() {
    const uint64_t pass = passes_.fetch_add(1, std::memory_order_relaxed) + 1;
    const uint64_t end = fail_end_.load(std::memory_order_acquire);
    if (__builtin_expect(end == 0, 1)) return false;
    return fires(pass, end);
  }

 private:
  friend bool fault_arm(const char *name, uint64_t nth, uint64_t count);
  friend void fault_disarm_all();
  friend std::vector<std::string> fault_points();
  friend std::vector<std::string> fault_points_never_fired();
  friend uint64_t fault_passes(const char *name);

  bool fires(uint64_t pass, uint64_t end);
  static FaultPoint *find(const char *name);

  const char *const name_;
  FaultPoint *next_ = nullptr;
  std::atomic<uint64_t> passes_{0};
  std::atomic<uint64_t> fired_{0};
  // Passes [fail_begin_, fail_end_) fail; fail_end_ 0: disarmed.
  std::atomic<uint64_t> fail_begin_{0};
  std::atomic<uint64_t> fail_end_{0};
};

/// A string literal as a template argument.
template <size_t kBytes>
struct FaultName {
  consteval FaultName(const char (&text)[kBytes]) {  // implicit: the macro passes the literal as it stands
    for (size_t i = 0; i < kBytes; ++i) characters[i] = text[i];
  }
  char characters[kBytes];
};

/// One object per name.  Naming it in a function that is compiled instantiates it, and static initialisation registers it.
template <FaultName kName>
struct FaultPointOf {
  static inline FaultPoint point{kName.characters};
};

/// Makes passes [nth, nth + count) of `name` fail, counting from now, first pass is 1; count UINT64_MAX: for ever.
/// False, nothing armed: no such point, nth 0 or count 0.
bool fault_arm(const char *name, uint64_t nth, uint64_t count);
/// Disarms every point; keeps the counts.
void fault_disarm_all();
/// Names of all points, sorted; of those that never made anything fail.
std::vector<std::string> fault_points();
std::vector<std::string> fault_points_never_fired();
/// Passes since load, failed ones included; 0 for no such point.
uint64_t fault_passes(const char *name);

}  // namespace kvc::base

#define KVC_FAULT(name) (::kvc::base::FaultPointOf<name>::point.hit())
#else
#define KVC_FAULT(name) false
#endif
