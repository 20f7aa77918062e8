#include "layouts.h"

/// Rows that went in in one layout come out in every other: each element where the engine's own indexing looks for it, nothing else
/// touched.
namespace {

using namespace kvc_test;

std::string every_pair(const Geometry &g, const std::vector<Layout> &all, uint32_t chunk_tokens, uint32_t dtype) {
  Host host({full_layers(g.layers, g.heads, g.k_dim, g.v_dim)}, dtype, chunk_tokens);
  for (size_t from = 0; from < all.size(); from++) {
    const uint64_t writer = from + 1;
    std::vector<uint8_t> source = poisoned(all[from].bytes);
    fill(source.data(), all[from], g, writer, 0, g.tokens);
    const std::vector<uint8_t> before = source;
    SeqHandle seq = host.create();
    if (host.append(seq, ids(g.tokens, static_cast<int32_t>(from)), all[from].bind(source.data())) != KVC_OK)
      return all[from].name + " in: " + host.error.text();
    if (source != before) return all[from].name + ": an append wrote to its source";
    for (const Layout &to : all) {
      std::vector<uint8_t> got = poisoned(to.bytes), want = got;
      fill(want.data(), to, g, writer, 0, g.tokens);
      if (host.gather(seq, to.bind(got.data())) != KVC_OK) return to.name + " out: " + host.error.text();
      const std::string differs = difference(got, want);
      if (!differs.empty()) return all[from].name + " -> " + to.name + ": " + differs;
    }
  }
  return "";
}

TEST(Layouts, B08_every_pair_of_layouts_gives_every_element_its_place) {
  const Geometry g{3, 4, 32, 32, 150};
  EXPECT_EQ(every_pair(g, layouts(g), 64, KVC_F16), "");
}

TEST(Layouts, B34_k_and_v_of_different_width_are_never_swapped) {
  const Geometry g{2, 3, 24, 16, 70};
  EXPECT_EQ(every_pair(g, layouts_any_width(g), 32, KVC_BF16), "");
}

TEST(Layouts, elements_of_four_bytes_and_of_one) {
  const Geometry wide{2, 2, 16, 16, 50, 4}, narrow{2, 2, 16, 16, 50, 1};
  EXPECT_EQ(every_pair(wide, layouts(wide), 16, KVC_F32), "");
  EXPECT_EQ(every_pair(narrow, layouts(narrow), 16, KVC_F8_E4M3), "");
}

TEST(Layouts, B29_odd_head_widths_in_every_layout) {
  for (const uint32_t dim : {1u, 7u, 40u, 64u, 80u, 96u, 100u, 112u, 192u, 256u, 576u}) {
    const Geometry g{1, 2, dim, dim, 37};
    EXPECT_EQ(every_pair(g, layouts(g), 16, KVC_F16), "") << "head_dim " << dim;
  }
}

TEST(Layouts, chunks_of_every_size) {
  for (const uint32_t chunk_tokens : {16u, 32u, 48u, 64u, 128u, 256u}) {
    const Geometry g{2, 2, 8, 8, 300};
    EXPECT_EQ(every_pair(g, {packed_tokens_first(g), vllm_hnd(g), vllm_split_k(g), llama_transposed_v(g, true)}, chunk_tokens, KVC_F16), "")
        << chunk_tokens;
  }
}

/// All pairs of ways to cut a prompt into appends (and gathers), each in another layout.
TEST(Layouts, rows_that_arrive_token_by_token_and_layer_by_layer_are_the_same) {
  const Geometry g{3, 2, 16, 16, 90};
  Host host({full_layers(g.layers, g.heads, g.k_dim, g.v_dim)}, KVC_F16, 32);
  const std::vector<Layout> all = layouts(g);
  for (size_t from = 0; from < all.size(); from++) {
    std::vector<uint8_t> source = poisoned(all[from].bytes);
    fill(source.data(), all[from], g, from, 0, g.tokens);
    SeqHandle seq = host.create();
    ASSERT_EQ(host.append(seq, ids(g.tokens, static_cast<int32_t>(from)), {}), KVC_OK) << host.error.message;
    for (uint64_t begin = 0, step = 1; begin < g.tokens; begin += step, step = step * 2 % 29) {
      const uint64_t count = std::min(step, g.tokens - begin);
      for (uint32_t l = g.layers; l-- > 0;) {
        kvc_rows rows = all[from].bind(source.data())[all[from].rows.size() == 1 ? 0 : l];
        if (rows.layer_count > 1) {
          rows.k.data = static_cast<uint8_t *>(rows.k.data) + l * rows.k.layer_stride, rows.k.bytes -= l * rows.k.layer_stride;
          rows.v.data = static_cast<uint8_t *>(rows.v.data) + l * rows.v.layer_stride, rows.v.bytes -= l * rows.v.layer_stride;
          rows.layer_begin = l, rows.layer_count = 1;
        }
        rows.token_begin = rows.slot_begin = begin, rows.token_count = count;
        ASSERT_EQ(host.append(seq, {}, {rows}), KVC_OK) << all[from].name << ": " << host.error.message;
      }
    }
    const Layout &to = all[(from + 1) % all.size()];
    std::vector<uint8_t> got = poisoned(to.bytes), want = got;
    fill(want.data(), to, g, from, 0, g.tokens);
    ASSERT_EQ(host.gather(seq, to.bind(got.data())), KVC_OK) << host.error.message;
    EXPECT_EQ(difference(got, want), "") << all[from].name << " -> " << to.name;
  }
}

}  // namespace
