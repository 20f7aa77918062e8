#pragma once
#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/// On a function that may read and write poisoned bytes: the keeper of free memory.
#define KVC_TOUCHES_POISON __attribute__((no_sanitize_address))

namespace kvc::memory {

/// Under AddressSanitizer, makes every access to the bytes a reported error until unpoison().  Otherwise nothing.
inline void poison([[maybe_unused]] const uint8_t *data, [[maybe_unused]] uint64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(data, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const uint8_t *data, [[maybe_unused]] uint64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(data, bytes);
#endif
}

}  // namespace kvc::memory
