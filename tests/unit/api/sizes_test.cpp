#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "host.h"

/// Offsets, slots and counts past 2^31 and 2^32.
namespace {

using namespace kvc_test;

constexpr uint64_t kGiB = 1ull << 30;

/// Address space that takes memory only where it is touched.
class Sparse {
 public:
  explicit Sparse(uint64_t bytes) : bytes_(bytes) {
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<uint8_t *>(at);
  }
  ~Sparse() {
    if (data_) munmap(data_, bytes_);
  }
  uint8_t *data() const { return data_; }

 private:
  uint8_t *data_ = nullptr;
  uint64_t bytes_;
};

TEST(Sizes, a_shape_that_is_right_makes_a_scope_however_large_its_pages_are) {
  auto options = sized<kvc_store_options>();
  options.memory_bytes = 16 * kGiB;
  ErrorText error;
  StoreHandle store;
  ASSERT_EQ(kvc_open(store.out(), "mem:", &options, &error), KVC_OK) << error.message;
  for (const auto &[dtype, dim] : {std::pair{KVC_F8_E4M3, 40000u}, std::pair{KVC_F16, 65535u}, std::pair{KVC_F32, 32767u}}) {
    const kvc_layer layer = full_layers(1, 128, dim, dim);
    auto shape = sized<kvc_shape>();
    shape.dtype = dtype, shape.layers = &layer, shape.layer_runs = 1, shape.chunk_tokens = 256;
    auto scope_options = sized<kvc_scope_options>();
    scope_options.model = "m", scope_options.shape = &shape;
    EXPECT_EQ(kvc_shape_check(nullptr, &shape, &error), KVC_OK) << error.message;
    ScopeHandle scope;
    EXPECT_EQ(kvc_scope_create(scope.out(), store, &scope_options, &error), KVC_OK) << error.message;
  }
}

uint16_t half(bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) { return static_cast<uint16_t>(stamp(9, is_k, l, t, h, d) | 1); }

constexpr uint32_t kLayers = 2, kHeads = 2, kDim = 16;
constexpr uint64_t kTokens = 80;

struct Strides {
  const char *name;
  uint64_t layer, block, token, head, dim;  // block 0: no table
};

uint64_t offset(const Strides &s, const std::vector<int32_t> &table, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
  const uint64_t slot = s.block ? static_cast<uint64_t>(table[t / 16]) * s.block + t % 16 * s.token : t * s.token;
  return l * s.layer + slot + h * s.head + d * s.dim;
}

kvc_rows describe(const Strides &s, const std::vector<int32_t> &table, uint8_t *k, uint64_t bytes, uint64_t v_offset) {
  auto rows = sized<kvc_rows>();
  rows.layer_count = kLayers, rows.token_count = kTokens;
  rows.k.data = k, rows.v.data = k + v_offset;
  rows.k.bytes = bytes, rows.v.bytes = bytes - v_offset;
  for (kvc_array *a : {&rows.k, &rows.v})
    a->layer_stride = s.layer, a->block_stride = s.block, a->token_stride = s.token, a->head_stride = s.head, a->dim_stride = s.dim;
  if (s.block) rows.block_tokens = 16, rows.blocks = table.data(), rows.block_count = table.size();
  return rows;
}

TEST(Sizes, B62_strides_and_block_ids_past_2_to_the_31_and_32_are_exact_on_both_sides) {
  constexpr uint64_t row = kHeads * kDim * 2, block = 16 * row;
  const uint64_t far = 3 * kGiB / 2;
  const std::vector<Strides> all{
      {"block ids", 13 * kGiB, 2 * block, 2 * row, 2 * kDim * 2, 4},
      {"block stride", 17 * row, far + 64, 64 * row, 4 * kDim * 2, 4},
      {"layer stride", 9 * kGiB, 0, 2 * row, 2 * kDim * 2, 4},
      {"token stride", 2 * row, 0, kGiB / 8 + 32, 2 * kDim * 2, 4},
      {"head stride", 2 * kTokens * kDim * 4, 0, kDim * 4, 9 * kGiB, 4},
      {"dim stride", kTokens * 8, 0, 4, 4 * kTokens * 8, kGiB * 3 / 4 + 1024},
  };
  // Around 2^31, 2^32 and 2^33 in blocks of 2 * block bytes: the last below each limit and the first above it.
  const std::vector<int32_t> near{static_cast<int32_t>((1ull << 31) / (2 * block)) - 1, static_cast<int32_t>((1ull << 32) / (2 * block)),
                                  static_cast<int32_t>((1ull << 32) / (2 * block)) - 1, static_cast<int32_t>((1ull << 31) / (2 * block)),
                                  static_cast<int32_t>((1ull << 33) / (2 * block))};
  const std::vector<int32_t> few{1, 3, 2, 6, 0};
  for (const Strides &s : all) {
    const std::vector<int32_t> &table = s.block > far ? few : near;
    const uint64_t bytes = offset(s, table, kLayers - 1, 0, kHeads - 1, kDim - 1) + (s.block ? 0 : (kTokens - 1) * s.token) +
                           (s.block ? static_cast<uint64_t>(*std::max_element(table.begin(), table.end())) * s.block : 0) + 4096 * 64;
    Sparse from(bytes), to(bytes);
    ASSERT_TRUE(from.data() && to.data());
    for (uint64_t l = 0; l < kLayers; l++)
      for (uint64_t t = 0; t < kTokens; t++)
        for (uint64_t h = 0; h < kHeads; h++)
          for (uint64_t d = 0; d < kDim; d++)
            for (const bool is_k : {true, false}) {
              const uint16_t bits = half(is_k, l, t, h, d);
              // V interleaves with K: two bytes on, at the same strides of four bytes or more.
              std::memcpy(from.data() + offset(s, table, l, t, h, d) + (is_k ? 0 : 2), &bits, 2);
            }
    Host host({full_layers(kLayers, kHeads, kDim, kDim)}, KVC_F16, 32);
    SeqHandle seq = host.create();
    ASSERT_EQ(host.append(seq, ids(kTokens), {describe(s, table, from.data(), bytes, 2)}), KVC_OK) << s.name << ": " << host.error.message;
    ASSERT_EQ(host.gather(seq, {describe(s, table, to.data(), bytes, 2)}), KVC_OK) << s.name << ": " << host.error.message;
    for (uint64_t l = 0; l < kLayers; l++)
      for (uint64_t t = 0; t < kTokens; t++)
        for (uint64_t h = 0; h < kHeads; h++)
          for (uint64_t d = 0; d < kDim; d++) {
            const uint8_t *at = to.data() + offset(s, table, l, t, h, d);
            uint16_t k, v;
            std::memcpy(&k, at, 2), std::memcpy(&v, at + 2, 2);
            ASSERT_EQ(k, half(true, l, t, h, d)) << s.name << " " << l << " " << t << " " << h << " " << d;
            ASSERT_EQ(v, half(false, l, t, h, d)) << s.name << " " << l << " " << t << " " << h << " " << d;
          }
    // Nothing landed where a 32-bit product would have put it: what memory is touched is what the source touched.
    const uint64_t low = std::min<uint64_t>(bytes, 64u << 20);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), low), 0) << s.name;
    kvc_rows wide = describe(s, table, to.data(), bytes, 2);
    wide.k.bytes = 1ull << 32;
    EXPECT_EQ(host.gather(seq, {wide}), KVC_ERR_ARGUMENT) << s.name;
  }
}

TEST(Sizes, a_chunk_of_more_than_4_gib_holds_its_last_layer_where_it_belongs) {
  constexpr uint32_t layers = 40, heads = 128, dim = 1024,
                     chunk_tokens = 256;  // 5.4 GB a chunk, of which a token of four layers is touched
  Host host({full_layers(layers, heads, dim, dim)}, KVC_F16, chunk_tokens, 12 * kGiB);
  SeqHandle seq = host.create();
  std::vector<uint16_t> source(heads * dim * 2), got(heads * dim * 2);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 1;
  const auto token = ids(1);
  ASSERT_EQ(host.append(seq, token, {}), KVC_OK) << host.error.message;
  const uint32_t some[] = {0, 31, 32, layers - 1};  // 4 GiB lies between 31 and 32
  for (const uint32_t l : some) {
    for (size_t i = 0; i < source.size(); i++) source[i] = static_cast<uint16_t>(stamp(l, true, l, 0, 0, i));
    rows.layer_begin = l;
    rows.k.data = source.data(), rows.v.data = source.data() + heads * dim, rows.k.bytes = rows.v.bytes = heads * dim * 2;
    ASSERT_EQ(host.append(seq, {}, {rows}), KVC_OK) << host.error.message;
  }
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, nullptr), KVC_OK);
  EXPECT_GT(info.bytes_host, 1ull << 32);
  for (const uint32_t l : some) {
    rows.layer_begin = l;
    rows.k.data = got.data(), rows.v.data = got.data() + heads * dim;
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], static_cast<uint16_t>(stamp(l, true, l, 0, 0, i))) << "layer " << l;
  }
}

TEST(Sizes, more_than_2_to_the_31_elements_in_one_append_and_one_gather) {
#ifndef KVC_LONG_TESTS
  GTEST_SKIP() << "touches 5 GiB: built with KVC_LONG_TESTS";
#endif
  constexpr uint32_t layers = 16, heads = 8, dim = 128;
  constexpr uint64_t tokens = 70000, row = heads * dim;  // 2.3e9 elements of one byte
  Host host({full_layers(layers, heads, dim, dim)}, KVC_F8_E4M3, 0, 3 * kGiB);
  SeqHandle seq = host.create();
  std::vector<uint8_t> source(64 * row * 2);  // every 64 tokens the same: a source may repeat
  for (size_t i = 0; i < source.size(); i++) source[i] = static_cast<uint8_t>(stamp(1, true, 0, 0, 0, i));
  const std::vector<int32_t> table((tokens + 63) / 64, 0);
  auto rows = sized<kvc_rows>();
  rows.layer_count = layers, rows.token_count = tokens;
  rows.block_tokens = 64, rows.blocks = table.data(), rows.block_count = table.size();
  rows.k.data = source.data(), rows.v.data = source.data() + 64 * row, rows.k.bytes = rows.v.bytes = 64 * row;
  std::vector<kvc_rows> all(layers, rows);
  for (uint32_t l = 0; l < layers; l++) all[l].layer_begin = l, all[l].layer_count = 1;
  ASSERT_EQ(host.append(seq, ids(tokens), all), KVC_OK) << host.error.message;
  Sparse to(layers * tokens * row * 2);
  ASSERT_TRUE(to.data());
  auto out = sized<kvc_rows>();
  out.layer_count = layers, out.token_count = tokens;
  out.k.data = to.data(), out.v.data = to.data() + layers * tokens * row;
  out.k.bytes = out.v.bytes = layers * tokens * row, out.k.layer_stride = out.v.layer_stride = tokens * row;
  auto result = sized<kvc_result>();
  ASSERT_EQ(host.gather(seq, {out}, &result), KVC_OK) << host.error.message;
  EXPECT_EQ(result.bytes, layers * tokens * row * 2);
  EXPECT_GT(result.bytes, 1ull << 31);
  for (uint64_t l = 0; l < layers; l++)
    for (uint64_t t = 0; t < tokens; t++) {
      ASSERT_EQ(std::memcmp(to.data() + (l * tokens + t) * row, source.data() + t % 64 * row, row), 0) << l << " " << t;
      ASSERT_EQ(std::memcmp(to.data() + ((layers + l) * tokens + t) * row, source.data() + (64 + t % 64) * row, row), 0) << l << " " << t;
    }
}

}  // namespace
