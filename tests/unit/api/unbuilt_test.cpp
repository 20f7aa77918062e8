#include "host.h"

/// What is declared and not built says so, by name, and hands out nothing.
namespace {

using namespace kvc_test;

template <typename H>
H *garbage() {
  return reinterpret_cast<H *>(0x77);
}

struct Unbuilt : testing::Test {
  Host host{{full_layers(1, 1, 8, 8)}};
  SeqHandle seq = host.create();
  ErrorText error;
  size_t count = 0;
  kvc_queue *queue = garbage<kvc_queue>();

  void expect(kvc_status status, const char *call) {
    EXPECT_EQ(status, KVC_ERR_UNSUPPORTED) << call;
    EXPECT_EQ(error.status, KVC_ERR_UNSUPPORTED) << call;
    EXPECT_EQ(error.text().find(call), 0u) << call << ": " << error.message;
    error = ErrorText();
  }
};

TEST_F(Unbuilt, calls_on_sequences_are_unsupported_by_name) {
  const float mass[] = {1};
  expect(kvc_seq_importance(seq, 0, 1, 0, mass, 1, &error), "kvc_seq_importance");
  expect(kvc_seq_budget(seq, nullptr, &error), "kvc_seq_budget");
}

TEST_F(Unbuilt, calls_on_stores_and_clusters_are_unsupported_by_name) {
  auto cluster = sized<kvc_cluster_info>();
  auto node = sized<kvc_node>();
  expect(kvc_store_flush(host.store, nullptr, &error), "kvc_store_flush");
  expect(kvc_cluster_get_info(&cluster, host.store, &error), "kvc_cluster_get_info");
  expect(kvc_cluster_nodes(&node, 1, &count, host.store, &error), "kvc_cluster_nodes");
  expect(kvc_cluster_locate(&node, 1, &count, seq, 0, &error), "kvc_cluster_locate");
  expect(kvc_cluster_drain(host.store, "node", &error), "kvc_cluster_drain");
}

TEST_F(Unbuilt, calls_of_attention_are_unsupported_by_name) {
  float lse;
  kvc_partial partial{};
  partial.lse = &lse, partial.lse_count = 1;
  const auto query = sized<kvc_query>();
  uint64_t position = 0, position_count = 0;
  expect(kvc_attend(&partial, nullptr, seq, &query, nullptr, nullptr, nullptr, &error), "kvc_attend");
  expect(kvc_attend_merge(&partial, &partial, 1, 1, 1, 8, &error), "kvc_attend_merge");
  expect(kvc_select(&position, 1, &position_count, 1, nullptr, seq, &query, nullptr, nullptr, &error), "kvc_select");
  expect(kvc_seq_observe(seq, &query, nullptr, &error), "kvc_seq_observe");
}

TEST(Build, null_is_released_with_ok) {
  EXPECT_EQ(kvc_queue_release(nullptr, nullptr), KVC_OK);
  EXPECT_EQ(kvc_view_release(nullptr, nullptr), KVC_OK);
  EXPECT_EQ(kvc_region_release(nullptr, nullptr), KVC_OK);
}

TEST(Build, this_build_says_what_it_is) {
  EXPECT_EQ(kvc_features(), 0u);
  EXPECT_EQ(kvc_version(), static_cast<uint32_t>(KVC_VERSION_MAJOR << 16 | KVC_VERSION_MINOR << 8 | KVC_VERSION_PATCH));
  EXPECT_STREQ(kvc_status_name(KVC_ERR_FULL), "KVC_ERR_FULL");
  for (const kvc_status status : {-1, 1, -999, INT32_MIN, INT32_MAX}) EXPECT_STREQ(kvc_status_name(status), "KVC_STATUS_UNKNOWN");
}

}  // namespace
