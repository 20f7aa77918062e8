#pragma once
#include "seq/index.h"

namespace kvc::seq {

/// Flags of a node that is held by a reader without the store's lock: others of them may change meanwhile, each by one store.
inline uint32_t flags_of(const Node &node) { return __atomic_load_n(&node.flags, __ATOMIC_RELAXED); }

}  // namespace kvc::seq
