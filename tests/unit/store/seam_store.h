#pragma once
#include "../api/host.h"
#include "store/store.h"

namespace kvc_test {

/// A store with the seams of tests; all that follows is as a host does it.
inline StoreHandle open_with(const kvc::store::Seams &seams, const kvc_store_options &options) {
  uint64_t token = 0;
  kvc::base::Error error;
  EXPECT_EQ(kvc::store::Store::open(&token, "mem:", options, seams, error), KVC_OK) << error.message;
  return StoreHandle(reinterpret_cast<kvc_store *>(token));
}

/// What is behind the handle: for what no call tells.
inline kvc::store::Store &internals(const kvc_store *store) {
  void *out = nullptr;
  kvc::base::Error error;
  EXPECT_EQ(kvc::base::store_of(&out, kvc::base::token_unpack(reinterpret_cast<uint64_t>(store)), kvc::base::HandleKind::store, error), KVC_OK) << error.message;
  return *static_cast<kvc::store::Store *>(out);
}

}  // namespace kvc_test
