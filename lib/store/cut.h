#pragma once
#include "store/store.h"

namespace kvc::store {

/// The pieces that a sequence will hold when it ends elsewhere: those it has already, and others that are pinned until it takes them over.
struct Store::Cut {
  Cut(Store &of, uint64_t where) : store(of), tokens(where), windows(&of.resource_), states(&of.resource_), made(&of.resource_) {}
  Cut(const Cut &) = delete;
  Cut &operator=(const Cut &) = delete;
  ~Cut();
  OpenChunk *hold(Ref piece);

  Store &store;
  const uint64_t tokens;
  std::pmr::vector<Pieces::Entry> windows, states;
  std::pmr::vector<OpenChunk *> made;
};

}  // namespace kvc::store
