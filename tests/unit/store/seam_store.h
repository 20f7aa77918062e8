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

}  // namespace kvc_test
