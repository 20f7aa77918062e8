#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "seq/index.h"
#include "store/ages.h"

namespace kvc::store {

struct Scope;

/// What a store knows of times to live; under its lock.
struct Expiry {
  /// An object with a time to live of its own, by when it may have to go.
  struct Timed {
    uint64_t due_ns;
    seq::Ref ref;
  };

  explicit Expiry(std::pmr::memory_resource *resource) : scopes(resource), timed(resource) {}
  bool any() const { return !scopes.empty() || !timed.empty(); }
  void reserve(const seq::Index &index);  // room for one more, first that of those that are gone.  Throws std::bad_alloc
  void add(const Timed &entry);
  Timed take();

  Ages ages;
  std::pmr::vector<Scope *> scopes;  // with a time to live
  std::pmr::vector<Timed> timed;     // a heap: least due on top
  uint64_t next_ns = 0;              // who needs room looks no sooner
};

}  // namespace kvc::store
