#pragma once
#include "../api/host.h"

namespace kvc_test {

/// What the store says of itself; a refusal fails the test.
inline kvc_store_info store_info(const kvc_store *store) {
  auto out = sized<kvc_store_info>();
  ErrorText error;
  EXPECT_EQ(kvc_store_get_info(&out, store, &error), KVC_OK) << error.message;
  return out;
}

inline kvc_metrics store_metrics(const kvc_store *store) {
  auto out = sized<kvc_metrics>();
  ErrorText error;
  EXPECT_EQ(kvc_metrics_read(&out, store, &error), KVC_OK) << error.message;
  return out;
}

}  // namespace kvc_test
