#include "seam_store.h"

/// A system that refuses memory in the middle of a call.
namespace {

using namespace kvc_test;

TEST(NoMemory, a_gather_that_is_refused_memory_says_so_in_its_result) {
  const StoreHandle store = open_with({.metadata_bytes_max = 8u << 20}, Host::options_of(1u << 20));
  const ScopeHandle scope = make_scope(store, "m", {full_layers(1, 1, 16, 16)});
  ErrorText error;
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK) << error.message;

  const std::vector<kvc_rows> rows(100000, sized<kvc_rows>());  // more than the limit to take in
  auto call = sized<kvc_call>();
  call.user = 7;
  auto result = sized<kvc_result>();
  result.status = 99, result.done = 88, result.bytes = 77;
  std::strcpy(result.message, "of the call before");
  ASSERT_EQ(kvc_gather(&result, seq, rows.data(), rows.size(), &call, &error), KVC_ERR_NO_MEMORY);
  EXPECT_EQ(result.status, KVC_ERR_NO_MEMORY);
  EXPECT_EQ(result.operation, static_cast<uint32_t>(KVC_OP_GATHER));
  EXPECT_EQ(result.user, 7u);
  EXPECT_EQ(result.done, 0u);
  EXPECT_EQ(result.bytes, 0u);
  EXPECT_EQ(result.retry, error.retry);
  EXPECT_EQ(std::string(result.message), error.text());
}

}  // namespace
