#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Fault points: named places where a test makes the world fail.  In builds without KVC_FAULTS they are the constant false.
///     if (KVC_FAULT("memory.slab.take")) return fail(error, KVC_ERR_NO_MEMORY, "injected");
/// A point registers itself when the library is loaded (not when it is first reached), so that a run can list the points never hit.
namespace kvc::base {

#ifdef KVC_FAULTS
class FaultPoint {
 public:
  explicit FaultPoint(const char *name);
  /// Counts the pass; true when this pass is to fail.
  bool hit();
};

/// Makes passes [nth, nth + count) of `name` fail, counting from now, first pass is 1.  False: no such point.
bool fault_arm(const char *name, uint64_t nth, uint64_t count);
/// Disarms every point; keeps the counts.
void fault_disarm_all();
/// Names of all points; of those that never made anything fail.
std::vector<std::string> fault_points();
std::vector<std::string> fault_points_never_fired();
uint64_t fault_passes(const char *name);
#endif

}  // namespace kvc::base

#ifdef KVC_FAULTS
// The engineer of lib/base fills this in: an inline variable in a template keyed by the literal, or a constructor in a dedicated section;
// the point must be known before it is first passed.
#define KVC_FAULT(name) ::kvc::base::fault_hit(name)
namespace kvc::base { bool fault_hit(const char *name); }
#else
#define KVC_FAULT(name) false
#endif
