#pragma once
#include <cstdint>
#include <map>
#include <memory_resource>

#include "base/error.h"

namespace kvc::store {

/// Memory of the host that is registered.  Regions do not overlap, so that an address is in one at most.  Under the store's lock.
class Regions {
 public:
  struct Region {
    uint64_t begin, bytes;
  };

  explicit Regions(std::pmr::memory_resource *resource) : by_begin_(resource) {}
  /// ARGUMENT: nothing, past the end of memory, or over a region that is held.
  [[nodiscard]] kvc_status add(Region **out, const void *data, uint64_t bytes, base::Error &error);
  void remove(Region *region) { by_begin_.erase(region->begin); }

 private:
  std::pmr::map<uint64_t, Region> by_begin_;
};

}  // namespace kvc::store
