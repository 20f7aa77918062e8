#pragma once
#include <cstdint>

#include "base/error.h"

namespace kvc::memory {

struct ArenaOptions {
  uint64_t bytes = 0;     // rounded up to 2 MiB
  bool populate = false;  // touch everything now
};

/// One reserved address range: anonymous, private, huge pages by madvise when the system gives them (advice only), touched on use,
/// MADV_DONTFORK (a child must not copy it; its handles are refused), MADV_DONTDUMP.  Address range is aligned to 2 MiB.
/// Fresh memory reads as zero.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Once per arena.  ARGUMENT: 0 bytes, or more than 16 TiB - 2 MiB.  NO_MEMORY names the bytes and the errno.  Fault point "memory.arena.map".
  [[nodiscard]] kvc_status open(const ArenaOptions &options, base::Error &error);
  uint8_t *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t *data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace kvc::memory
