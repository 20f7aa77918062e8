#include <cstdlib>

#include "layouts.h"
#include "safetensors.h"

/// Caches that real models computed go in in one layout and come out in others, bit for bit.
namespace {

using namespace kvc_test;

struct Dump {
  Safetensors file;
  Geometry g;
  std::vector<int32_t> tokens;
  const uint16_t *k = nullptr, *v = nullptr;  // [layers][heads][tokens][dim]

  explicit Dump(const std::string &path) : file(path), g{} {
    const Safetensors::Tensor kt = file.tensor("k"), vt = file.tensor("v"), ids_t = file.tensor("token_ids");
    if (kt.shape.size() != 4 || kt.bytes != vt.bytes || ids_t.shape.size() != 1) return;
    g = {static_cast<uint32_t>(kt.shape[0]), static_cast<uint32_t>(kt.shape[1]), static_cast<uint32_t>(kt.shape[3]),
         static_cast<uint32_t>(kt.shape[3]), kt.shape[2]};
    tokens.resize(g.tokens);
    std::memcpy(tokens.data(), ids_t.data, ids_t.bytes);
    k = reinterpret_cast<const uint16_t *>(kt.data), v = reinterpret_cast<const uint16_t *>(vt.data);
  }
  bool ok() const { return file.ok() && k; }
  uint16_t bits(bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) const {
    uint16_t out;
    std::memcpy(&out, reinterpret_cast<const char *>(is_k ? k : v) + (((l * g.heads + h) * g.tokens + t) * g.k_dim + d) * 2, 2);
    return out;
  }
  void fill(uint8_t *memory, const Layout &y) const {
    for (const bool is_k : {true, false})
      for (uint64_t l = 0; l < g.layers; l++)
        for (uint64_t h = 0; h < g.heads; h++)
          for (uint64_t t = 0; t < g.tokens; t++)
            for (uint64_t d = 0; d < g.k_dim; d++) {
              const uint16_t value = bits(is_k, l, t, h, d);
              std::memcpy(memory + y.at(is_k, l, t, h, d), &value, 2);
            }
  }
};

/// Stores the dump as the file has it (heads first) and gathers it in the layouts of engines; then a second host of the prompt matches it.
void round_trip(const Dump &dump) {
  const Geometry &g = dump.g;
  Host host({full_layers(g.layers, g.heads, g.k_dim, g.v_dim)}, KVC_F16, 64, 512u << 20);
  auto rows = sized<kvc_rows>();
  rows.layer_count = g.layers, rows.token_count = g.tokens;
  rows.k.data = const_cast<uint16_t *>(dump.k), rows.v.data = const_cast<uint16_t *>(dump.v);
  for (kvc_array *a : {&rows.k, &rows.v}) {
    a->bytes = g.layers * g.heads * g.tokens * g.k_dim * 2;
    a->token_stride = g.k_dim * 2, a->head_stride = g.tokens * g.k_dim * 2, a->layer_stride = g.heads * g.tokens * g.k_dim * 2;
  }
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append(seq, dump.tokens, {rows}), KVC_OK) << host.error.message;
  seq.reset();
  uint64_t length = 0;
  seq = host.match(dump.tokens, &length);
  ASSERT_EQ(length, g.tokens / 64 * 64);
  ASSERT_EQ(length, g.tokens);  // the dumps are whole chunks
  for (const Layout &y :
       {packed_tokens_first(g), vllm_nhd(g), vllm_hnd(g), vllm_split_k(g), llama_transposed_v(g, true), packed_kv_per_head(g)}) {
    std::vector<uint8_t> got = poisoned(y.bytes), want = got;
    dump.fill(want.data(), y);
    ASSERT_EQ(host.gather(seq, y.bind(got.data())), KVC_OK) << y.name << ": " << host.error.message;
    EXPECT_EQ(difference(got, want), "") << y.name;
  }
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

const char *const kModels[] = {"smollm2", "qwen25coder15b"};

TEST(RealData, B08_the_cut_of_each_model_comes_back_bit_for_bit_in_every_layout) {
  for (const char *model : kModels) {
    SCOPED_TRACE(model);
    const Dump dump(std::string(KVC_TEST_DATA "/") + model + ".safetensors");
    ASSERT_TRUE(dump.ok());
    ASSERT_EQ(dump.g.layers, 2u);
    ASSERT_EQ(dump.g.tokens, 512u);
    round_trip(dump);
  }
}

TEST(RealData, the_full_dump_of_each_model_comes_back_bit_for_bit_in_every_layout) {
  const char *const directory = std::getenv("KVC_DATA");
  if (!directory)
    GTEST_SKIP() << "2 dumps skipped: KVC_DATA names no directory with smollm2/kv.safetensors and qwen25coder15b/kv.safetensors";
  for (const char *model : kModels) {
    SCOPED_TRACE(model);
    const Dump dump(std::string(directory) + "/" + model + "/kv.safetensors");
    ASSERT_TRUE(dump.ok()) << "KVC_DATA is " << directory;
    round_trip(dump);
  }
}

}  // namespace
