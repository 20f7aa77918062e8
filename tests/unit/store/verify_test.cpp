#include "../api/host.h"

/// Checks of pages that are right.
namespace {

using namespace kvc_test;

TEST(Verify, pages_whose_sides_are_no_multiples_of_64_bytes_are_right) {
  constexpr uint32_t tokens = 16, k_dim = 5, v_dim = 3;
  Host host({full_layers(2, 1, k_dim, v_dim)}, KVC_F16, tokens, 1 << 20, KVC_OPEN_VERIFY_READS);
  std::vector<uint16_t> memory(2 * tokens * k_dim), out(memory.size());
  for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<uint16_t>(i * 31 + 1);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 2, rows.token_count = tokens;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  rows.k.layer_stride = rows.v.layer_stride = tokens * k_dim * 2;
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append(seq, ids(tokens), {rows}), KVC_OK) << host.error.message;
  rows.k.data = out.data(), rows.v.data = nullptr;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(out, memory);
  auto info = sized<kvc_verify_info>();
  EXPECT_EQ(kvc_store_verify(&info, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info.pages_read, 2u);
  EXPECT_EQ(info.bytes_read, 2u * tokens * (k_dim + v_dim) * 2);
}

}  // namespace
