#include <cmath>
#include <cstring>
#include <limits>

#include "layouts.h"

/// Parts of layouts: heads, lists, slots, runs of layers, other dtypes, special numbers.
namespace {

using namespace kvc_test;

/// A host whose sequence holds the stamps of writer 1.
struct Stored {
  Geometry g;
  Host host;
  SeqHandle seq;

  Stored(const Geometry &geometry, uint32_t dtype, uint32_t chunk_tokens)
      : g(geometry), host({full_layers(g.layers, g.heads, g.k_dim, g.v_dim)}, dtype, chunk_tokens) {
    const Layout y = packed_tokens_first(g);
    std::vector<uint8_t> memory = poisoned(y.bytes);
    fill(memory.data(), y, g, 1, 0, g.tokens);
    seq = host.create();
    EXPECT_EQ(host.append(seq, ids(g.tokens), y.bind(memory.data())), KVC_OK) << host.error.message;
  }
  uint64_t bits(bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) const {
    return stamp(1, is_k, l, t, h, d) & (g.e == 4 ? 0xFFFFFFFFu : g.e == 2 ? 0xFFFFu : 0xFFu);
  }
};

TEST(Heads, slices_of_tensor_parallel_ranks_are_gathered_apart) {
  const Geometry g{2, 8, 16, 16, 100};
  Stored s(g, KVC_F16, 64);
  for (const uint32_t ranks : {1u, 2u, 4u, 8u}) {
    const uint32_t heads = g.heads / ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
      Geometry slice = g;
      slice.heads = heads;
      for (const Layout &y : layouts(slice)) {
        std::vector<uint8_t> got = poisoned(y.bytes), want = got;
        std::vector<kvc_rows> rows = y.bind(got.data());
        for (kvc_rows &r : rows) r.head_begin = rank * heads, r.head_count = heads;
        ASSERT_EQ(s.host.gather(s.seq, rows), KVC_OK) << y.name << ": " << s.host.error.message;
        for (const bool is_k : {true, false})
          for (uint64_t l = 0; l < g.layers; l++)
            for (uint64_t t = 0; t < g.tokens; t++)
              for (uint64_t h = 0; h < heads; h++)
                for (uint64_t d = 0; d < 16; d++) {
                  const uint64_t bits = s.bits(is_k, l, t, rank * heads + h, d);
                  std::memcpy(want.data() + y.at(is_k, l, t, h, d), &bits, 2);
                }
        EXPECT_EQ(difference(got, want), "") << y.name << " rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(Heads, an_append_may_bring_them_in_runs) {
  const Geometry g{3, 6, 8, 8, 50};
  Host host({full_layers(3, 6, 8, 8)}, KVC_F16, 16);
  const Layout y = vllm_hnd(g);
  std::vector<uint8_t> source = poisoned(y.bytes);
  fill(source.data(), y, g, 5, 0, g.tokens);
  SeqHandle seq = host.create();
  for (uint64_t begin = 0; begin < 50; begin += 10) {
    std::vector<kvc_rows> rows;
    for (uint32_t h = 0; h < 6; h += 2) {
      kvc_rows r = y.bind(source.data())[0];
      r.head_begin = h, r.head_count = 2;
      r.token_begin = r.slot_begin = begin, r.token_count = 10;
      for (kvc_array *a : {&r.k, &r.v}) a->data = static_cast<uint8_t *>(a->data) + h * a->head_stride, a->bytes -= h * a->head_stride;
      rows.push_back(r);
    }
    std::vector<int32_t> all = ids(50);
    ASSERT_EQ(host.append(seq, {all.begin() + static_cast<int64_t>(begin), all.begin() + static_cast<int64_t>(begin + 10)}, rows), KVC_OK)
        << host.error.message;
  }
  for (const Layout &to : layouts(g)) {
    std::vector<uint8_t> got = poisoned(to.bytes), want = got;
    fill(want.data(), to, g, 5, 0, g.tokens);
    ASSERT_EQ(host.gather(seq, to.bind(got.data())), KVC_OK) << host.error.message;
    EXPECT_EQ(difference(got, want), "") << to.name;
  }
}

/// Gathers a list into each layout: entry i lands in slot i.
void expect_list(Stored &s, const std::vector<uint64_t> &list, uint32_t unit) {
  Geometry part = s.g;
  part.tokens = list.size() * unit;
  for (const Layout &y : layouts(part)) {
    std::vector<uint8_t> got = poisoned(y.bytes), want = got;
    std::vector<kvc_rows> rows = y.bind(got.data());
    for (kvc_rows &r : rows) r.token_list = list.data(), r.token_count = list.size(), r.token_unit = unit == 1 ? 0 : unit;
    auto result = sized<kvc_result>();
    ASSERT_EQ(s.host.gather(s.seq, rows, &result), KVC_OK) << y.name << ": " << s.host.error.message;
    EXPECT_EQ(result.done, list.size());
    EXPECT_EQ(result.bytes, part.tokens * s.g.layers * s.g.heads * (s.g.k_dim + s.g.v_dim) * s.g.e);
    for (const bool is_k : {true, false})
      for (uint64_t l = 0; l < s.g.layers; l++)
        for (uint64_t t = 0; t < part.tokens; t++)
          for (uint64_t h = 0; h < s.g.heads; h++)
            for (uint64_t d = 0; d < s.g.k_dim; d++) {
              const uint64_t bits = s.bits(is_k, l, list[t / unit] * unit + t % unit, h, d);
              std::memcpy(want.data() + y.at(is_k, l, t, h, d), &bits, s.g.e);
            }
    EXPECT_EQ(difference(got, want), "") << y.name << " unit " << unit;
  }
}

TEST(Lists, tokens_in_no_order_and_more_than_once) {
  Stored s({2, 2, 8, 8, 200}, KVC_F16, 48);
  expect_list(s, {5, 3, 199, 0, 0, 47, 48, 49, 50, 96, 95, 5}, 1);
  std::vector<uint64_t> rising(200);
  for (size_t i = 0; i < rising.size(); i++) rising[i] = i;
  expect_list(s, rising, 1);
  expect_list(s, {199}, 1);
}

TEST(Lists, subpages_of_sixteen_and_units_that_cross_chunks) {
  Stored s({2, 2, 8, 8, 200}, KVC_F16, 48);
  expect_list(s, {11, 0, 3, 2, 2, 7}, 16);
  expect_list(s, {3, 0, 1}, 50);  // units longer than a chunk
  expect_list(s, {0}, 200);
  expect_list(s, {6, 5, 27}, 7);
}

TEST(Slots, a_range_lands_from_slot_begin_on_also_in_the_middle_of_a_block) {
  const Geometry g{2, 2, 8, 8, 120};
  Stored s(g, KVC_F16, 64);
  for (const Layout &y : layouts(g))
    for (const auto &[begin, count, slot] : std::vector<std::array<uint64_t, 3>>{
             {0, 1, 0}, {3, 5, 3}, {63, 2, 63}, {17, 40, 71}, {0, 120, 0}, {64, 48, 5}, {100, 20, 0}, {1, 15, 17}}) {
      std::vector<uint8_t> got = poisoned(y.bytes), want = got;
      std::vector<kvc_rows> rows = y.bind(got.data());
      for (kvc_rows &r : rows) r.token_begin = begin, r.token_count = count, r.slot_begin = slot;
      ASSERT_EQ(s.host.gather(s.seq, rows), KVC_OK) << y.name << ": " << s.host.error.message;
      for (const bool is_k : {true, false})
        for (uint64_t l = 0; l < g.layers; l++)
          for (uint64_t i = 0; i < count; i++)
            for (uint64_t h = 0; h < g.heads; h++)
              for (uint64_t d = 0; d < 8; d++) {
                const uint64_t bits = s.bits(is_k, l, begin + i, h, d);
                std::memcpy(want.data() + y.at(is_k, l, slot + i, h, d), &bits, 2);
              }
      EXPECT_EQ(difference(got, want), "") << y.name << " tokens " << begin << " +" << count << " slot " << slot;
    }
}

TEST(Sides, one_side_alone_may_be_gathered) {
  const Geometry g{2, 2, 8, 8, 70};
  Stored s(g, KVC_F16, 64);
  for (const bool k_wanted : {true, false}) {
    const Layout y = packed_kv_per_head(g);
    std::vector<uint8_t> got = poisoned(y.bytes), want = got, both = got;
    std::vector<kvc_rows> rows = y.bind(got.data());
    (k_wanted ? rows[0].v : rows[0].k).data = nullptr;
    ASSERT_EQ(s.host.gather(s.seq, rows), KVC_OK) << s.host.error.message;
    fill(both.data(), y, g, 1, 0, g.tokens);
    for (uint64_t l = 0; l < g.layers; l++)
      for (uint64_t t = 0; t < g.tokens; t++)
        for (uint64_t h = 0; h < g.heads; h++) std::memcpy(&want[y.at(k_wanted, l, t, h, 0)], &both[y.at(k_wanted, l, t, h, 0)], 16);
    EXPECT_EQ(difference(got, want), "");
  }
}

TEST(Runs, layers_of_several_geometries_are_told_apart) {
  const std::vector<Geometry> parts{{2, 4, 16, 16, 75}, {1, 1, 96, 64, 75}, {3, 2, 8, 24, 75}};
  Host host({full_layers(2, 4, 16, 16), full_layers(1, 1, 96, 64), full_layers(3, 2, 8, 24)}, KVC_F16, 32);
  SeqHandle seq = host.create();
  std::vector<std::vector<uint8_t>> sources;
  std::vector<kvc_rows> all;
  uint32_t layer = 0;
  for (size_t i = 0; i < parts.size(); i++) {
    const Layout y = packed_kv_per_row(parts[i]);
    sources.push_back(poisoned(y.bytes));
    fill(sources[i].data(), y, parts[i], 10 + i, 0, 75);
    kvc_rows r = y.bind(sources[i].data())[0];
    r.layer_begin = layer;
    layer += parts[i].layers;
    all.push_back(r);
  }
  std::swap(all[0], all[2]);  // in any order
  ASSERT_EQ(host.append(seq, ids(75), all), KVC_OK) << host.error.message;
  layer = 0;
  for (size_t i = 0; i < parts.size(); i++) {
    for (const Layout &y : layouts_any_width(parts[i])) {
      std::vector<uint8_t> got = poisoned(y.bytes), want = got;
      fill(want.data(), y, parts[i], 10 + i, 0, 75);
      std::vector<kvc_rows> rows = y.bind(got.data());
      for (kvc_rows &r : rows) r.layer_begin += layer;
      ASSERT_EQ(host.gather(seq, rows), KVC_OK) << y.name << ": " << host.error.message;
      EXPECT_EQ(difference(got, want), "") << y.name << " part " << i;
    }
    layer += parts[i].layers;
  }
}

/// Numbers by arithmetic alone: what a code stands for, and the nearest code (ties to the even one) by looking at all of them.
double half_value(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1), exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
}
double value_of(uint32_t dtype, uint32_t bits) {
  if (dtype == KVC_F32) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
  return dtype == KVC_F16 ? half_value(bits, 5, 10) : half_value(bits, 8, 7);
}
/// The code of a 16-bit dtype nearest to a finite or infinite value.
uint32_t nearest_16(uint32_t dtype, double value) {
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0, infinity = dtype == KVC_F16 ? 0x7C00 : 0x7F80;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  uint32_t low = 0, high = infinity;  // codes rise with the values they stand for
  while (low + 1 < high) {
    const uint32_t middle = (low + high) / 2;
    (value_of(dtype, middle) <= magnitude ? low : high) = middle;
  }
  // Infinity stands where the next power of two would be.
  const double below = value_of(dtype, low),
               above = high == infinity ? std::ldexp(1.0, dtype == KVC_F16 ? 16 : 128) : value_of(dtype, high);
  if (magnitude - below != above - magnitude) return sign | (magnitude - below < above - magnitude ? low : high);
  return sign | (low % 2 ? high : low);
}

std::vector<uint32_t> numbers_of(uint32_t dtype) {
  std::vector<uint32_t> out;
  if (dtype != KVC_F32) {
    for (uint32_t bits = 0; bits < 0x10000; bits += bits % 977 == 0 ? 1 : 3) out.push_back(bits);
    return out;
  }
  for (uint32_t exponent = 0; exponent < 256; exponent++)
    for (const uint32_t mantissa : {0u, 1u, 0x1000u, 0xFFFu, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0x17FFFu, 0x18000u, 0x2FFFu, 0x3000u,
                                    0x3001u, 0x400000u, 0x7FFFFFu, 0x7FF000u})
      for (const uint32_t sign : {0u, 0x80000000u}) out.push_back(sign | exponent << 23 | mantissa);
  return out;
}

/// Through a store whose dtype is `stored`, in as `in` and out as `out`.
void expect_conversion(uint32_t stored, uint32_t in, uint32_t out) {
  std::vector<uint32_t> numbers = numbers_of(in);
  const uint32_t dim = 40;
  numbers.resize(numbers.size() / dim * dim);
  const uint64_t tokens = numbers.size() / dim;
  Host host({full_layers(1, 1, dim, dim)}, stored, 64);
  SeqHandle seq = host.create();
  std::vector<uint8_t> source(numbers.size() * dtype_size(in)), got(numbers.size() * dtype_size(out));
  for (size_t i = 0; i < numbers.size(); i++) std::memcpy(&source[i * dtype_size(in)], &numbers[i], dtype_size(in));
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = tokens;
  rows.k.data = rows.v.data = source.data(), rows.k.bytes = rows.v.bytes = source.size();
  rows.k.dtype = rows.v.dtype = in;
  ASSERT_EQ(host.append(seq, ids(tokens), {rows}), KVC_OK) << host.error.message;
  for (const bool is_k : {true, false}) {
    rows.k.data = rows.v.data = nullptr;
    kvc_array &a = is_k ? rows.k : rows.v;
    a.data = got.data(), a.bytes = got.size(), a.dtype = out;
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    for (size_t i = 0; i < numbers.size(); i++) {
      uint32_t bits = numbers[i];
      double value = value_of(in, bits);
      for (const auto &[from, to] : {std::pair{in, stored}, std::pair{stored, out}}) {
        if (from == to) continue;
        if (to != KVC_F32) bits = std::isnan(value) ? 0 : nearest_16(to, value);
        value = std::isnan(value) ? value : to == KVC_F32 ? static_cast<double>(static_cast<float>(value)) : value_of(to, bits);
      }
      uint32_t code = 0;
      std::memcpy(&code, &got[i * dtype_size(out)], dtype_size(out));
      if (in == stored && stored == out)
        ASSERT_EQ(code, numbers[i]);
      else if (std::isnan(value))
        ASSERT_TRUE(std::isnan(value_of(out, code))) << std::hex << numbers[i] << " became " << code;
      else
        ASSERT_TRUE(value_of(out, code) == value && std::signbit(value_of(out, code)) == std::signbit(value))
            << std::hex << numbers[i] << " became " << code;
    }
  }
}

TEST(Conversions, every_pair_of_dtypes_in_and_out_rounds_to_the_nearest_even) {
  for (const uint32_t stored : {KVC_F32, KVC_F16, KVC_BF16})
    for (const uint32_t in : {KVC_F32, KVC_F16, KVC_BF16})
      for (const uint32_t out : {KVC_F32, KVC_F16, KVC_BF16}) {
        SCOPED_TRACE("stored " + std::to_string(stored) + ", in " + std::to_string(in) + ", out " + std::to_string(out));
        expect_conversion(stored, in, out);
        if (HasFatalFailure()) return;
      }
}

TEST(Conversions, convert_in_every_layout_where_both_sides_have_their_own_dtype) {
  const Geometry g{2, 2, 24, 24, 70};
  Stored s(g, KVC_F16, 32);
  Geometry wide = g;
  wide.e = 4;
  for (const Layout &y : layouts(wide)) {
    std::vector<uint8_t> got = poisoned(y.bytes), want = got;
    std::vector<kvc_rows> rows = y.bind(got.data());
    for (kvc_rows &r : rows) r.k.dtype = r.v.dtype = KVC_F32;
    ASSERT_EQ(s.host.gather(s.seq, rows), KVC_OK) << y.name << ": " << s.host.error.message;
    for (const bool is_k : {true, false})
      for (uint64_t l = 0; l < g.layers; l++)
        for (uint64_t t = 0; t < g.tokens; t++)
          for (uint64_t h = 0; h < g.heads; h++)
            for (uint64_t d = 0; d < 24; d++) {
              const auto value = static_cast<float>(half_value(static_cast<uint32_t>(s.bits(is_k, l, t, h, d)), 5, 10));
              uint8_t *const at = want.data() + y.at(is_k, l, t, h, d);
              float there;
              std::memcpy(&there, got.data() + (at - want.data()), 4);
              std::memcpy(at, std::isnan(value) && std::isnan(there) ? &there : &value, 4);
            }
    EXPECT_EQ(difference(got, want), "") << y.name;
  }
}

TEST(Numbers, B23_nan_infinity_and_minus_zero_survive_bit_for_bit) {
  const uint32_t specials[] = {0x7FC00000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x807FFFFF};
  const uint16_t halves[] = {0x7E00, 0x7C01, 0xFE77, 0x7FFF, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x83FF};
  for (const uint32_t dtype : {KVC_F32, KVC_F16, KVC_BF16}) {
    const uint64_t e = dtype_size(dtype), tokens = 64 + 9;
    Host host({full_layers(1, 1, 9, 9)}, dtype, 64);
    std::vector<uint8_t> source(tokens * 9 * e), got(tokens * 9 * e);
    for (uint64_t i = 0; i < tokens * 9; i++)
      std::memcpy(&source[i * e], e == 4 ? static_cast<const void *>(&specials[(i + i / 9) % 9]) : &halves[(i + i / 9) % 9], e);
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = tokens;
    rows.k.data = rows.v.data = source.data(), rows.k.bytes = rows.v.bytes = source.size();
    SeqHandle seq = host.create();
    ASSERT_EQ(host.append(seq, ids(tokens), {rows}), KVC_OK) << host.error.message;
    rows.v.data = nullptr, rows.k.data = got.data();
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    EXPECT_TRUE(got == source) << "dtype " << dtype;
  }
}

}  // namespace
