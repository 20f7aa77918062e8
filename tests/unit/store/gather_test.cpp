#include "../api/host.h"

/// Where rows go out to, element by element.
namespace {

using namespace kvc_test;

struct GatherTest : testing::Test {
  Host host{{full_layers(1, 1, 4, 4)}, KVC_F16, 16};
  SeqHandle seq = host.create();
  std::vector<uint16_t> memory{1, 1, 1, 1, 2, 2, 2, 2}, out = std::vector<uint16_t>(32);

  void SetUp() override {
    kvc_rows rows = rows_to(memory, 2);
    rows.v = rows.k;
    ASSERT_EQ(host.append(seq, ids(2), {rows}), KVC_OK) << host.error.message;
  }
  static kvc_rows rows_to(std::vector<uint16_t> &to, uint64_t tokens) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = tokens;
    rows.k.data = to.data(), rows.k.bytes = to.size() * 2;
    return rows;
  }
};

TEST_F(GatherTest, two_tokens_on_either_side_of_a_border_of_blocks_that_overlap_are_refused) {
  const int32_t table[] = {0, 1};
  kvc_rows rows = rows_to(out, 2);
  rows.block_tokens = 3, rows.blocks = table, rows.block_count = 2, rows.slot_begin = 2;
  rows.k.block_stride = 16;  // three tokens of 8 bytes take 24
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("k.block_stride 16"), std::string::npos) << host.error.message;
  EXPECT_EQ(out, std::vector<uint16_t>(32));
  rows.k.block_stride = 24;
  ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(out[8], 1u);
  EXPECT_EQ(out[12], 2u);
}

TEST_F(GatherTest, the_strides_of_one_token_and_one_head_may_be_any_number) {
  kvc_rows rows = rows_to(out, 1);
  rows.k.token_stride = rows.k.head_stride = 1ull << 63;
  ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(out[3], 1u);
  rows = rows_to(memory, 1);
  rows.token_begin = 2;
  rows.k.token_stride = rows.k.head_stride = 1ull << 63;
  rows.v = rows.k;
  EXPECT_EQ(host.append(seq, {5}, {rows}), KVC_OK) << host.error.message;
}

}  // namespace
