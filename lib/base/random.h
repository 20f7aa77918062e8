#pragma once
#include <cstddef>

#include "base/error.h"

namespace kvc::base {

/// Unpredictable bytes, at most 256.  IO: the system gives none.  Fault point "base.random.fill".
[[nodiscard]] kvc_status random_fill(void *to, size_t bytes, Error &error);

}  // namespace kvc::base
