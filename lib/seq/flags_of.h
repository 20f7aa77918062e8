#pragma once
#include "seq/index.h"

namespace kvc::seq {

/// Flags of a node that is held by a reader without the store's lock: others of them may change meanwhile, each by one store.  Who sees that a piece
/// is complete sees what completed it.
inline uint32_t flags_of(const Node &node) { return __atomic_load_n(&node.flags, __ATOMIC_ACQUIRE); }

}  // namespace kvc::seq
