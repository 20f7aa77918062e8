#include "hybrid.h"

/// Latent layers: a row is [latent | rope], in one array or in two, and neither part is ever served for the other.
namespace {

using namespace kvc_test;

constexpr uint32_t k_dim = 24, rope_dim = 8, dim = k_dim + rope_dim;

/// One array with the whole row, stamped as its two parts are.
std::vector<uint16_t> joined(uint64_t writer, uint32_t layer, uint64_t begin, uint64_t end, uint32_t k = k_dim, uint32_t rope = rope_dim) {
  std::vector<uint16_t> out;
  for (uint64_t t = begin; t < end; t++) {
    for (uint32_t d = 0; d < k; d++) out.push_back(static_cast<uint16_t>(stamp(writer, true, layer, t, 0, d)));
    for (uint32_t d = 0; d < rope; d++) out.push_back(static_cast<uint16_t>(stamp(writer, false, layer, t, 0, d)));
  }
  return out;
}

kvc_rows one_row(std::vector<uint16_t> &memory, uint32_t layer, uint64_t begin, uint64_t end) {
  auto rows = sized<kvc_rows>();
  rows.layer_begin = layer, rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
  rows.k.data = memory.data(), rows.k.bytes = memory.size() * 2;
  return rows;
}

TEST(Latent, rows_come_and_go_in_one_array_or_in_two) {
  HybridHost host({full_layers(1, 3, 7, 5), latent_layers(2, k_dim, rope_dim)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS);
  const auto tokens = ids(100);
  SeqHandle seq = host.create();
  const Moves full = host.source(0, 0, 100, 1), apart = host.source(1, 0, 100, 1);
  auto whole = joined(1, 2, 0, 100);
  std::vector<kvc_rows> rows = full.rows();
  rows.push_back(apart.rows()[0]);
  rows.push_back(one_row(whole, 2, 0, 100));
  ASSERT_EQ(host.append(seq, tokens, rows), KVC_OK) << host.error.message;
  for (uint32_t l = 0; l < 3; l++) host.expect_rows(seq, l, 0, 100, 1);
  for (const uint32_t l : {1u, 2u})
    for (const auto &[begin, end] : {std::pair{0u, 100u}, {13u, 81u}, {99u, 100u}}) {
      std::vector<uint16_t> got((end - begin) * dim, 0x5A5A);
      ASSERT_EQ(host.gather(seq, {one_row(got, l, begin, end)}), KVC_OK) << host.error.message;
      EXPECT_TRUE(got == joined(1, l, begin, end)) << "layer " << l << " from " << begin;
    }
  // Another handle, of which one layer is read with a list.
  SeqHandle found;
  EXPECT_EQ(host.look(tokens, &found).tokens, 96u);
  for (uint32_t l = 0; l < 3; l++) host.expect_rows(found, l, 0, 96, 1);
  const uint64_t list[] = {95, 0, 17};
  std::vector<uint16_t> got(3 * dim, 0x5A5A);
  kvc_rows listed = one_row(got, 1, 0, 3);
  listed.token_list = list;
  ASSERT_EQ(host.gather(found, {listed}), KVC_OK) << host.error.message;
  for (size_t i = 0; i < 3; i++)
    EXPECT_TRUE(std::equal(got.begin() + static_cast<int64_t>(i * dim), got.begin() + static_cast<int64_t>((i + 1) * dim), joined(1, 1, list[i], list[i] + 1).begin()));
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

TEST(Latent, B34_k_is_never_v) {
  HybridHost host({latent_layers(1, k_dim, rope_dim)}, KVC_F16, 16);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, ids(20), 0, 20, 1), KVC_OK) << host.error.message;
  // The row without its rope part has no name: k alone is the whole row, and memory for the latent part alone is too short.
  std::vector<uint16_t> latent(20 * k_dim, 0x5A5A), rope(20 * rope_dim, 0x5A5A), before = latent;
  EXPECT_EQ(host.gather(seq, {one_row(latent, 0, 0, 20)}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("k.bytes 960"), std::string::npos) << host.error.message;
  EXPECT_TRUE(latent == before);
  kvc_rows only_rope = one_row(rope, 0, 0, 20);
  std::swap(only_rope.k, only_rope.v);
  ASSERT_EQ(host.gather(seq, {only_rope}), KVC_OK) << host.error.message;
  for (size_t i = 0; i < rope.size(); i++) ASSERT_EQ(rope[i], static_cast<uint16_t>(stamp(1, false, 0, i / rope_dim, 0, i % rope_dim)));
  EXPECT_EQ(host.append(seq, ids(4), {[&] {
              kvc_rows r = only_rope;
              r.token_begin = 20, r.token_count = 4;
              return r;
            }()}),
            KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("k.data is NULL"), std::string::npos) << host.error.message;
}

TEST(Latent, a_layer_without_a_rope_part_has_k_alone) {
  HybridHost host({latent_layers(1, 5, 0)}, KVC_F16, 16);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, ids(40), 0, 40, 1), KVC_OK) << host.error.message;
  host.expect_rows(seq, 0, 3, 40, 1);
  std::vector<uint16_t> memory(40 * 5);
  kvc_rows rows = one_row(memory, 0, 0, 40);
  rows.v = rows.k;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_SHAPE);
  EXPECT_NE(host.error.text().find("v.data"), std::string::npos) << host.error.message;
}

TEST(Latent, one_array_may_have_any_strides_but_a_group_that_straddles_the_parts) {
  HybridHost host({latent_layers(2, k_dim, rope_dim)}, KVC_F16, 16);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, ids(40), 0, 40, 1), KVC_OK) << host.error.message;
  for (const uint32_t group : {1u, 4u, 8u, 24u, 32u, 100u}) {  // [layer][dim / group][token][group], as a split K has it
    const uint64_t groups = (dim + group - 1) / group;
    std::vector<uint16_t> got(2 * groups * 40 * group, 0x5A5A), want = got;
    kvc_rows rows = one_row(got, 0, 0, 40);
    rows.layer_count = 2, rows.k.dim_group = group, rows.k.dim_stride = 40 * group * 2, rows.k.token_stride = group * 2, rows.k.layer_stride = groups * 40 * group * 2;
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    for (uint32_t l = 0; l < 2; l++)
      for (uint64_t t = 0; t < 40; t++)
        for (uint32_t d = 0; d < dim; d++)
          want[((l * groups + d / group) * 40 + t) * group + d % group] = static_cast<uint16_t>(d < k_dim ? stamp(1, true, l, t, 0, d) : stamp(1, false, l, t, 0, d - k_dim));
    EXPECT_TRUE(got == want) << "group " << group;
  }
  std::vector<uint16_t> memory;
  kvc_rows rows = one_row(memory, 0, 0, 40);
  rows.k.dim_group = 5, rows.k.dim_stride = 40 * 5 * 2, rows.k.token_stride = 5 * 2;
  memory.resize(40 * 2 * dim), rows.k.data = memory.data(), rows.k.bytes = memory.size() * 2;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("dim_group 5"), std::string::npos) << host.error.message;
  // Rows that share addresses are refused over both parts.
  rows = one_row(memory, 0, 0, 40);
  rows.k.token_stride = k_dim * 2;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("token_stride 48"), std::string::npos) << host.error.message;
  kvc_rows other = one_row(memory, 1, 0, 40);
  other.k.data = memory.data() + k_dim, other.k.bytes -= k_dim * 2;
  rows.k.token_stride = other.k.token_stride = 48 * 2;
  EXPECT_EQ(host.gather(seq, {rows, other}), KVC_ERR_ARGUMENT) << "the rope part of one is the latent part of the other";
  other.k.data = memory.data() + dim;
  rows.k.token_stride = other.k.token_stride = 2 * dim * 2, other.k.bytes = (memory.size() - dim) * 2;
  EXPECT_EQ(host.gather(seq, {rows, other}), KVC_OK) << host.error.message;
}

TEST(Latent, parts_of_two_dtypes_are_one_array_only_where_its_dtype_is_said) {
  Host host({latent_layers(1, 3, 2, KVC_F32, KVC_F16)}, KVC_F16, 16);
  const float row[] = {1.5f, -2, 1e30f, 0.25f, -0.5f};
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 1, rows.k.data = const_cast<float *>(row), rows.k.bytes = sizeof row;
  SeqHandle seq = host.create();
  EXPECT_EQ(host.append(seq, ids(1), {rows}), KVC_ERR_SHAPE);
  EXPECT_NE(host.error.text().find("k.dtype is 0"), std::string::npos) << host.error.message;
  rows.k.dtype = KVC_F32;
  ASSERT_EQ(host.append(seq, ids(1), {rows}), KVC_OK) << host.error.message;
  float k[3];
  uint16_t rope[2];
  rows.k = {k, sizeof k, 0, 0, 0, 0, 0, 0, 0};
  rows.v = {rope, sizeof rope, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  EXPECT_TRUE(std::equal(row, row + 3, k));
  EXPECT_EQ(rope[0], 0x3400);  // 0.25
  EXPECT_EQ(rope[1], 0xB800);  // -0.5
  Host bytes({latent_layers(1, 3, 2, KVC_F8_E4M3, KVC_F16)}, KVC_F16, 16);
  SeqHandle other = bytes.create();
  rows.v = {}, rows.k.dtype = KVC_F16;
  EXPECT_EQ(bytes.append(other, ids(1), {rows}), KVC_ERR_SHAPE) << "F8 converts to nothing";
}

}  // namespace
