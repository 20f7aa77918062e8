#include "../api/host.h"
#include "store/store.h"

/// A system that refuses memory in the middle of a call.
namespace {

using namespace kvc_test;

TEST(NoMemory, a_gather_that_is_refused_memory_says_so_in_its_result) {
  auto options = sized<kvc_store_options>();
  options.memory_bytes = 1u << 20;
  kvc::store::Seams seams;
  seams.metadata_bytes_max = 8u << 20;
  uint64_t token = 0;
  kvc::base::Error e;
  ASSERT_EQ(kvc::store::Store::open(&token, "mem:", options, seams, e), KVC_OK) << e.message;
  StoreHandle store(reinterpret_cast<kvc_store *>(token));
  ErrorText error;
  const kvc_layer layer = full_layers(1, 1, 16, 16);
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  auto scope_options = sized<kvc_scope_options>();
  scope_options.model = "m", scope_options.shape = &shape;
  ScopeHandle scope;
  ASSERT_EQ(kvc_scope_create(scope.out(), store, &scope_options, &error), KVC_OK) << error.message;
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
