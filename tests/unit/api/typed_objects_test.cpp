#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <string_view>

#include "host.h"

/// Objects put with a layout: they come back byte for byte, whatever the layout and however their parts are cut, and a layout that would lose a byte
/// is refused.
namespace {

using namespace kvc_test;

struct Geometry {
  uint64_t layers, heads, tokens, k_dim, v_dim, e = 2;

  uint64_t k_bytes() const { return layers * heads * tokens * k_dim * e; }
  uint64_t v_bytes() const { return layers * heads * tokens * v_dim * e; }
  uint64_t bytes() const { return k_bytes() + v_bytes(); }
};

void *offset(uint64_t bytes) { return reinterpret_cast<void *>(bytes); }

kvc_rows rows_of(const Geometry &g) {
  auto rows = sized<kvc_rows>();
  rows.layer_count = static_cast<uint32_t>(g.layers);
  rows.token_count = g.tokens;
  return rows;
}

struct Named {
  const char *name;
  kvc_rows rows;
};

/// Layouts of engines' blocks without a hole, widths as they come.
std::vector<Named> dense_layouts(const Geometry &g) {
  const uint64_t e = g.e, both = (g.k_dim + g.v_dim) * e;
  std::vector<Named> all;
  const auto add = [&](const char *name, auto &&set) {
    kvc_rows rows = rows_of(g);
    set(rows);
    all.push_back({name, rows});
  };
  add("K then V, [layer][token][head][dim]", [&](kvc_rows &r) {
    r.v.data = offset(g.k_bytes());
    r.k.layer_stride = g.k_bytes() / g.layers, r.v.layer_stride = g.v_bytes() / g.layers;
  });
  add("V then K, [layer][head][token][dim]", [&](kvc_rows &r) {
    r.k.data = offset(g.v_bytes());
    r.k.layer_stride = g.k_bytes() / g.layers, r.v.layer_stride = g.v_bytes() / g.layers;
    r.k.head_stride = g.tokens * g.k_dim * e, r.k.token_stride = g.k_dim * e;
    r.v.head_stride = g.tokens * g.v_dim * e, r.v.token_stride = g.v_dim * e;
  });
  add("[layer][K | V][token][head][dim]", [&](kvc_rows &r) {
    r.v.data = offset(g.k_bytes() / g.layers);
    r.k.layer_stride = r.v.layer_stride = g.bytes() / g.layers;
  });
  add("[token][layer][head][K | V]", [&](kvc_rows &r) {
    r.v.data = offset(g.k_dim * e);
    for (kvc_array *a : {&r.k, &r.v}) a->head_stride = both, a->layer_stride = g.heads * both, a->token_stride = g.layers * g.heads * both;
  });
  add("K [layer][token][head][dim], V [layer][head][dim][token]", [&](kvc_rows &r) {
    r.v.data = offset(g.k_bytes());
    r.k.layer_stride = g.k_bytes() / g.layers, r.v.layer_stride = g.v_bytes() / g.layers;
    r.v.token_stride = e, r.v.dim_stride = g.tokens * e, r.v.head_stride = g.v_dim * g.tokens * e;
  });
  if (g.k_dim % 4 == 0)
    add("K [layer][head][dim / 4][token][4]", [&](kvc_rows &r) {
      r.v.data = offset(g.k_bytes());
      r.k.layer_stride = g.k_bytes() / g.layers, r.v.layer_stride = g.v_bytes() / g.layers;
      r.k.dim_group = 4, r.k.token_stride = 4 * e, r.k.dim_stride = g.tokens * 4 * e, r.k.head_stride = g.tokens * g.k_dim * e;
    });
  if (g.k_dim == g.v_dim)
    add("K and V element by element", [&](kvc_rows &r) {
      r.v.data = offset(e);
      for (kvc_array *a : {&r.k, &r.v}) a->dim_stride = 2 * e, a->layer_stride = g.bytes() / g.layers;
    });
  return all;
}

std::vector<uint8_t> value_of(uint64_t bytes, uint64_t salt) {
  std::mt19937_64 random(salt);
  std::vector<uint8_t> value(bytes);
  for (uint8_t &byte : value) byte = static_cast<uint8_t>(random());
  return value;
}

/// Memory cut into parts at any bytes, empty ones among them.
std::vector<kvc_bytes> cut(std::vector<uint8_t> &memory, size_t count, uint64_t salt) {
  std::mt19937_64 random(salt);
  std::vector<uint64_t> at{0, memory.size()};
  for (size_t i = 1; i < count; i++) at.push_back(random() % (memory.size() + 1));
  std::sort(at.begin(), at.end());
  std::vector<kvc_bytes> parts;
  for (size_t i = 1; i < at.size(); i++) parts.push_back({at[i] == at[i - 1] ? nullptr : memory.data() + at[i - 1], at[i] - at[i - 1]});
  return parts;
}

struct TypedObjectsTest : testing::Test {
  Geometry g{3, 2, 40, 8, 6};
  Host host{{full_layers(5, 2, 8, 6)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS};

  kvc_object item(std::string_view key, const std::vector<kvc_bytes> &parts) {
    kvc_object o{};
    o.key = key.data(), o.key_size = key.size(), o.parts = parts.data(), o.part_count = parts.size();
    return o;
  }
  kvc_status put(std::string_view key, std::vector<uint8_t> value, const kvc_rows *layout, size_t part_count = 1, uint32_t flags = 0) {
    const std::vector<kvc_bytes> parts = cut(value, part_count, part_count * 31 + value.size());
    kvc_object o = item(key, parts);
    auto options = sized<kvc_object_options>();
    options.layout = layout, options.flags = flags;
    const kvc_status status = kvc_object_put(nullptr, host.scope, &o, 1, &options, nullptr, &host.error);
    EXPECT_EQ(status, o.status);
    return status;
  }
  kvc_status get(std::string_view key, std::vector<uint8_t> &out, size_t part_count = 1) {
    const std::vector<kvc_bytes> parts = cut(out, part_count, part_count * 17 + out.size());
    kvc_object o = item(key, parts);
    return kvc_object_get(nullptr, host.scope, &o, 1, nullptr, nullptr, &host.error);
  }
  void expect_held(std::string_view key, const std::vector<uint8_t> &value, size_t part_count, const std::string &what) {
    std::vector<uint8_t> out = poisoned(value.size() + 9), behind(out.end() - 9, out.end());
    ASSERT_EQ(get(key, out, part_count), KVC_OK) << what << ": " << host.error.message;
    EXPECT_TRUE(std::equal(value.begin(), value.end(), out.begin())) << what;
    EXPECT_TRUE(std::equal(behind.begin(), behind.end(), out.end() - 9)) << what << ": written behind the value";
  }
  uint64_t checksum_failures() {
    auto metrics = sized<kvc_metrics>();
    EXPECT_EQ(kvc_metrics_read(&metrics, host.store, nullptr), KVC_OK);
    return metrics.checksum_failures;
  }
  kvc_store_info info() {
    auto out = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&out, host.store, nullptr), KVC_OK);
    return out;
  }
};

TEST_F(TypedObjectsTest, come_back_byte_for_byte_in_every_layout_put_and_read_in_any_parts) {
  int key_count = 0;
  for (const uint64_t tokens : {1u, 16u, 40u})
    for (const uint64_t layers : {1u, 3u})
      for (const size_t put_parts : {1u, 2u, 7u, 300u}) {
        g.tokens = tokens, g.layers = layers;
        for (Named &layout : dense_layouts(g)) {
          layout.rows.layer_begin = 2;
          const std::string key = "object " + std::to_string(++key_count), what = std::string(layout.name) + ", tokens " + std::to_string(tokens);
          const std::vector<uint8_t> value = value_of(g.bytes(), static_cast<uint64_t>(key_count));
          ASSERT_EQ(put(key, value, &layout.rows, put_parts), KVC_OK) << what << ": " << host.error.message;
          for (const size_t parts : {1u, 2u, 6u, 500u}) expect_held(key, value, parts, what);
        }
      }
  EXPECT_EQ(info().object_count, static_cast<uint64_t>(key_count));
  EXPECT_EQ(checksum_failures(), 0u);
}

TEST_F(TypedObjectsTest, wide_rows_of_a_model_and_values_that_pass_the_cache_by_come_back) {
  g = {2, 4, 256, 128, 128};
  host.scope.reset();
  host = Host({full_layers(2, 4, 128, 128)}, KVC_BF16, 64, 8u << 20, KVC_OPEN_VERIFY_READS);
  int key_count = 0;
  for (const Named &layout : dense_layouts(g)) {
    const std::string key = std::to_string(++key_count);
    const std::vector<uint8_t> value = value_of(g.bytes(), static_cast<uint64_t>(key_count));
    ASSERT_EQ(put(key, value, &layout.rows), KVC_OK) << layout.name << ": " << host.error.message;
    for (const size_t parts : {1u, 3u}) expect_held(key, value, parts, layout.name);
    EXPECT_GT(info().memory_used, g.bytes());
  }
}

TEST_F(TypedObjectsTest, a_part_of_the_heads_is_a_value_too) {
  host.scope.reset();
  host = Host({full_layers(2, 6, 8, 8)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS);
  g = {2, 2, 20, 8, 8};
  kvc_rows rows = dense_layouts(g)[0].rows;
  rows.head_begin = 3, rows.head_count = 2;
  const std::vector<uint8_t> value = value_of(g.bytes(), 5);
  ASSERT_EQ(put("heads", value, &rows, 3), KVC_OK) << host.error.message;
  expect_held("heads", value, 2, "heads 3 and 4");
  rows.head_begin = 5;
  EXPECT_EQ(put("none", value, &rows), KVC_ERR_RANGE);
}

TEST_F(TypedObjectsTest, latent_rows_come_back_from_one_array_and_from_two) {
  const auto latent = [](uint32_t k_dtype, uint32_t v_dtype) { return kvc_layer{3, KVC_LAYER_LATENT, 1, 24, 0, 8, 0, k_dtype, v_dtype, {0, 0, 0}}; };
  host.scope.reset();
  host = Host({latent(0, 0)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS);
  g = {3, 1, 20, 24, 8};
  kvc_rows one_row = rows_of(g), two = dense_layouts(g)[0].rows, rope_first = two;
  one_row.k.layer_stride = 20 * 32 * 2;
  rope_first.k.data = offset(g.v_bytes()), rope_first.v.data = offset(0), rope_first.v.bytes = g.v_bytes();
  int key = 0;
  for (const kvc_rows &rows : {one_row, two, rope_first})
    for (const size_t parts : {1u, 5u}) {
      const std::vector<uint8_t> value = value_of(g.bytes(), static_cast<uint64_t>(++key));
      ASSERT_EQ(put(std::to_string(key), value, &rows, parts), KVC_OK) << host.error.message;
      expect_held(std::to_string(key), value, 3, "latent " + std::to_string(key));
    }
  host.scope.reset();
  host = Host({latent(KVC_F8_E4M3, KVC_F16)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS);
  one_row.k.dtype = KVC_F8_E4M3;
  EXPECT_EQ(put("mixed", value_of(g.bytes(), 1), &one_row), KVC_ERR_SHAPE) << host.error.message;
}

TEST_F(TypedObjectsTest, a_layout_that_is_none_of_the_scopes_shape_or_loses_a_byte_is_refused_by_name) {
  const kvc_rows good = dense_layouts(g)[0].rows;
  const uint64_t k_row = g.heads * g.k_dim * g.e;
  struct Case {
    const char *what;
    kvc_status status;
    const char *message;
    void (*change)(kvc_rows &);
  };
  const Case cases[] = {
      {"a layer past the last", KVC_ERR_RANGE, "layers [3, +3)", [](kvc_rows &r) { r.layer_begin = 3; }},
      {"positions", KVC_ERR_ARGUMENT, "layout: token_begin 16", [](kvc_rows &r) { r.token_begin = 16; }},
      {"all tokens there are", KVC_ERR_ARGUMENT, "token_count 18446744073709551615", [](kvc_rows &r) { r.token_count = KVC_ALL; }},
      {"no tokens", KVC_ERR_ARGUMENT, "token_count 0", [](kvc_rows &r) { r.token_count = 0; }},
      {"a list", KVC_ERR_ARGUMENT, "token_list", [](kvc_rows &r) { r.token_unit = 16; }},
      {"a block table", KVC_ERR_ARGUMENT, "block_tokens 16", [](kvc_rows &r) { r.block_tokens = 16; }},
      {"another dtype", KVC_ERR_SHAPE, "k.dtype 1: the shape's is 2", [](kvc_rows &r) { r.k.dtype = KVC_F32; }},
      {"an address", KVC_ERR_ARGUMENT, "v.data", [](kvc_rows &r) { r.v.data = reinterpret_cast<void *>(1ull << 57); }},
      {"device memory", KVC_ERR_UNSUPPORTED, "memory 1", [](kvc_rows &r) { r.memory = KVC_MEMORY_CUDA; }},
      {"flags", KVC_ERR_TOO_NEW, "flags", [](kvc_rows &r) { r.flags = 1; }},
      {"no size", KVC_ERR_ARGUMENT, "layout.size 0", [](kvc_rows &r) { r.size = 0; }},
      {"K and V in one place", KVC_ERR_ARGUMENT, "k and v overlap", [](kvc_rows &r) { r.v.data = nullptr; }},
      {"tokens that overlap", KVC_ERR_ARGUMENT, "k.token_stride 31: elements would share addresses", [](kvc_rows &r) { r.k.token_stride = 31; }},
      {"a hole between tokens", KVC_ERR_ARGUMENT, "byte 32 of the value is covered by no element",
       [](kvc_rows &r) {
         r.k.token_stride = 33, r.k.layer_stride = 40 * 33;
         r.v.data = offset(3 * 40 * 33);
       }},
      {"a hole in front", KVC_ERR_ARGUMENT, "byte 0 of the value is covered by no element", [](kvc_rows &r) { r.k.data = offset(8), r.v.data = offset(3848); }},
      {"groups that leave a rest", KVC_ERR_ARGUMENT, "k.dim_group 3",
       [](kvc_rows &r) { r.k.dim_group = 3, r.k.token_stride = 6, r.k.dim_stride = 40 * 6, r.k.head_stride = 40 * 18, r.k.layer_stride = 2 * 40 * 18, r.v.data = offset(100000); }},
      {"an extent too short", KVC_ERR_ARGUMENT, "k.bytes 100", [](kvc_rows &r) { r.k.bytes = 100; }},
  };
  std::vector<uint8_t> value = value_of(g.bytes(), 1);
  ASSERT_EQ(k_row, 32u);
  for (const Case &c : cases) {
    kvc_rows rows = good;
    c.change(rows);
    EXPECT_EQ(put("refused", value, &rows), c.status) << c.what << ": " << host.error.message;
    EXPECT_NE(host.error.text().find(c.message), std::string::npos) << c.what << ": " << host.error.message;
  }
  kvc_rows rows = good;
  value.push_back(0);
  EXPECT_EQ(put("refused", value, &rows), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("byte 6720 is the first that its layout does not cover"), std::string::npos) << host.error.message;
  value.resize(6719);
  EXPECT_EQ(put("refused", value, &rows), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("the value has 6719 bytes, its layout reaches to 6720"), std::string::npos) << host.error.message;
  EXPECT_EQ(info().object_count, 0u);
  EXPECT_EQ(info().memory_used, 0u);
  const ScopeHandle plain = host.make_scope("no shape", {});
  std::swap(host.scope, const_cast<ScopeHandle &>(plain));
  EXPECT_EQ(put("refused", value, &rows), KVC_ERR_SHAPE);
  EXPECT_NE(host.error.text().find("no shape"), std::string::npos) << host.error.message;
}

TEST_F(TypedObjectsTest, a_layout_is_for_puts_alone) {
  const kvc_rows rows = dense_layouts(g)[0].rows;
  std::vector<uint8_t> value = value_of(g.bytes(), 1);
  ASSERT_EQ(put("a", value, &rows), KVC_OK);
  const std::vector<kvc_bytes> parts = cut(value, 1, 1);
  kvc_object o = item("a", parts);
  auto options = sized<kvc_object_options>();
  options.layout = &rows;
  EXPECT_EQ(kvc_object_get(nullptr, host.scope, &o, 1, &options, nullptr, &host.error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_object_exists(nullptr, host.scope, &o, 1, &options, nullptr, &host.error), KVC_ERR_ARGUMENT);
}

TEST_F(TypedObjectsTest, equal_bytes_again_are_ok_with_any_layout_or_none_and_other_bytes_exist) {
  const std::vector<Named> layouts = dense_layouts(g);
  const std::vector<uint8_t> value = value_of(g.bytes(), 1);
  std::vector<uint8_t> shorter(value.begin(), value.end() - 1);
  for (const Named &layout : layouts) {
    ASSERT_EQ(put("typed", value, &layout.rows, 2), KVC_OK) << layout.name << ": " << host.error.message;
    ASSERT_EQ(put("plain", value, nullptr), KVC_OK);
    for (const Named &other : layouts)
      for (const uint32_t flags : {0u, static_cast<uint32_t>(KVC_OBJECT_GROUP)})
        for (const char *key : {"typed", "plain"}) {
          EXPECT_EQ(put(key, value, &other.rows, 4, flags), KVC_OK) << host.error.message;
          EXPECT_EQ(put(key, value, nullptr, 3, flags), KVC_OK) << host.error.message;
        }
    for (const size_t at : {size_t{0}, value.size() / 2, value.size() - 1}) {
      std::vector<uint8_t> other = value;
      other[at] ^= 1;
      EXPECT_EQ(put("typed", other, nullptr), KVC_ERR_EXISTS) << at;
      EXPECT_EQ(put("typed", other, &layout.rows, 5), KVC_ERR_EXISTS) << at;
    }
    EXPECT_EQ(put("typed", shorter, nullptr), KVC_ERR_EXISTS);
    expect_held("typed", value, 1, layout.name);
    kvc_object o = item("typed", {});
    ASSERT_EQ(kvc_object_delete(nullptr, host.scope, &o, 1, nullptr, &host.error), KVC_OK);
  }
  EXPECT_EQ(info().object_count, 1u);
}

TEST_F(TypedObjectsTest, typed_and_plain_ones_are_found_listed_leased_and_deleted_alike) {
  const kvc_rows rows = dense_layouts(g)[3].rows;
  const std::vector<uint8_t> typed = value_of(g.bytes(), 1), plain = value_of(1000, 2);
  ASSERT_EQ(put("b", typed, &rows), KVC_OK);
  ASSERT_EQ(put("a", plain, nullptr), KVC_OK);
  ASSERT_EQ(put("c", typed, &rows), KVC_OK);
  std::vector<uint8_t> room[3] = {poisoned(1000), poisoned(g.bytes()), poisoned(g.bytes() - 1)};
  std::vector<kvc_bytes> parts[3] = {cut(room[0], 2, 1), cut(room[1], 3, 2), cut(room[2], 1, 3)};
  kvc_object items[] = {item("a", parts[0]), item("b", parts[1]), item("c", parts[2])};
  EXPECT_EQ(kvc_object_get(nullptr, host.scope, items, 3, nullptr, nullptr, &host.error), KVC_ERR_RANGE) << "the last is a byte short";
  EXPECT_EQ(room[0], plain);
  EXPECT_EQ(room[1], typed);
  EXPECT_EQ(room[2], poisoned(g.bytes() - 1));
  EXPECT_EQ(items[2].value_size, g.bytes());
  kvc_object_entry entries[4];
  size_t count = 0;
  ASSERT_EQ(kvc_object_list(entries, 4, &count, host.scope, nullptr, 0, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(count, 3u);
  EXPECT_EQ(entries[0].value_size, plain.size());
  EXPECT_EQ(entries[1].value_size, typed.size());
  auto options = sized<kvc_object_options>();
  auto result = sized<kvc_result>();
  options.flags = KVC_OBJECT_LEASE;
  ASSERT_EQ(kvc_object_exists(&result, host.scope, items, 2, &options, nullptr, &host.error), KVC_OK);
  const LeaseHandle lease(result.lease);
  EXPECT_EQ(items[1].value_size, typed.size());
  for (int i = 0; i < 3000; i++) (void)put("filler " + std::to_string(i), typed, &rows);  // more than the store holds
  expect_held("b", typed, 1, "leased");
  EXPECT_EQ(get("c", room[1]), KVC_ERR_NOT_FOUND) << "evicted";
  ASSERT_EQ(kvc_object_delete(nullptr, host.scope, items, 2, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(get("b", room[1]), KVC_ERR_NOT_FOUND);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// The record of the one typed object there is.
uint8_t *record_in_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin, end;
    char rights[5];
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3 || std::string_view(rights) != "rw-p" || line.find("[") != line.npos || end - begin < (4u << 20)) continue;
    for (auto *at = reinterpret_cast<uint8_t *>(begin); at + 8 <= reinterpret_cast<uint8_t *>(end); at += 64)
      if (std::memcmp(at, "KVCOBJ_1", 8) == 0) return at;
  }
  return nullptr;
}

TEST_F(TypedObjectsTest, a_damaged_record_frame_or_page_is_gone_and_counted) {
  const kvc_rows rows = dense_layouts(g)[0].rows;
  const std::vector<uint8_t> value = value_of(g.bytes(), 1);
  const uint64_t frame = 512 + 512 + 384;  // 16 tokens of 2 heads: K 512 bytes, V 384
  const uint64_t places[] = {60, 100, 256, 256 + 80, 256 + 512, 256 + 1024, 256 + 4 * frame + 512 + 100, 256 + 8 * frame};
  for (const uint64_t place : places) {
    host.scope.reset();
    host = Host({full_layers(5, 2, 8, 6)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS);
    ASSERT_EQ(put("a", value, &rows), KVC_OK) << host.error.message;
    expect_held("a", value, 1, "whole");
    uint8_t *record = record_in_memory();
    ASSERT_NE(record, nullptr) << place;
    record[place] ^= 4;
    std::vector<uint8_t> out = poisoned(value.size());
    EXPECT_EQ(get("a", out), KVC_ERR_GONE) << place;
    EXPECT_EQ(out, poisoned(value.size())) << "a miss writes nothing";
    EXPECT_EQ(checksum_failures(), 1u) << place;
    EXPECT_EQ(get("a", out), KVC_ERR_NOT_FOUND);
    EXPECT_EQ(put("a", value, &rows), KVC_OK) << "it can be put again";
    record = record_in_memory();
    ASSERT_NE(record, nullptr) << place;
    record[place] ^= 4;
    auto verify = sized<kvc_verify_info>();
    EXPECT_EQ(kvc_store_verify(&verify, host.store, nullptr, nullptr), KVC_ERR_CORRUPT);
    EXPECT_EQ(verify.pages_bad, 1u);
    EXPECT_EQ(info().object_count, 0u);
  }
}
#endif

}  // namespace
