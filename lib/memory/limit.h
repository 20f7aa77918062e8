#pragma once
#include <cstdint>

namespace kvc::memory {

/// Least memory limit of this process's cgroup and the groups above it, v1 or v2; UINT64_MAX when there is none.  `root` is put in front
/// of every path read ("" for the running system), so that a test can describe other machines.
uint64_t cgroup_limit_bytes(const char *root);

/// What kvc_open takes when memory_bytes is 0: a quarter of the machine or of the cgroup's limit (v1 or v2), whichever is less.
uint64_t default_memory_bytes();

}  // namespace kvc::memory
