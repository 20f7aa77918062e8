#include "seq/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "golden/vectors.h"

namespace {

using kvc::base::Error;
using kvc::seq::Shape;
using kvc::seq::shape_check;

kvc_layer layer(uint32_t kind, uint32_t heads, uint32_t k_dim, uint32_t v_dim) {
  kvc_layer made{};
  made.count = 1;
  made.kind = kind;
  made.kv_heads = heads;
  made.k_dim = k_dim;
  made.v_dim = v_dim;
  return made;
}
kvc_layer full() { return layer(KVC_LAYER_FULL, 8, 128, 128); }
kvc_layer window() {
  kvc_layer made = layer(KVC_LAYER_WINDOW, 4, 64, 64);
  made.window = 1024;
  return made;
}
kvc_layer latent() {
  kvc_layer made = layer(KVC_LAYER_LATENT, 1, 512, 0);
  made.rope_dim = 64;
  return made;
}
kvc_layer state() { return layer(KVC_LAYER_STATE, 16, 8192, 768); }

kvc_shape shape_of(const std::vector<kvc_layer> &layers) {
  kvc_shape shape{};
  shape.size = sizeof shape;
  shape.dtype = KVC_F16;
  shape.layers = layers.data();
  shape.layer_runs = layers.size();
  return shape;
}

/// The shape is refused as SHAPE, every fragment stands in the message, and `out` keeps what it had.
void expect_refused(const kvc_shape &shape, const std::vector<std::string> &fragments) {
  Shape out;
  out.layer_count = 12345;
  Error error;
  EXPECT_EQ(shape_check(out, shape, error), KVC_ERR_SHAPE);
  EXPECT_EQ(error.status, KVC_ERR_SHAPE);
  const std::string message = error.message;
  for (const std::string &fragment : fragments) EXPECT_NE(message.find(fragment), std::string::npos) << message << " lacks " << fragment;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(out.layer_count, 12345u);
}

/// A good run stands in front, so that the index in the message is not 0 by chance.
void expect_run_refused(kvc_layer bad, const std::vector<std::string> &fragments) {
  const std::vector<kvc_layer> layers = {full(), bad};
  std::vector<std::string> all = fragments;
  all.push_back("run 1:");
  expect_refused(shape_of(layers), all);
}

kvc_layer changed(kvc_layer base, const std::function<void(kvc_layer &)> &change) {
  change(base);
  return base;
}

TEST(Shape, golden_fingerprints_and_byte_counts_hold) {
  for (const golden::Record &record : golden::read("shapes.txt")) {
    SCOPED_TRACE(record.text("name"));
    std::vector<kvc_layer> layers;
    for (const std::string &line : record.list("run")) {
      kvc_layer run{};
      std::istringstream(line) >> run.count >> run.kind >> run.kv_heads >> run.k_dim >> run.v_dim >> run.rope_dim >> run.window >>
          run.k_dtype >> run.v_dtype;
      layers.push_back(run);
    }
    kvc_shape shape = shape_of(layers);
    shape.dtype = static_cast<uint32_t>(record.number("dtype"));
    shape.chunk_tokens = static_cast<uint32_t>(record.number("chunk_tokens"));
    shape.rope = static_cast<uint32_t>(record.number("rope"));
    Shape out;
    Error error;
    ASSERT_EQ(shape_check(out, shape, error), KVC_OK) << error.message;
    EXPECT_EQ(golden::hex(out.fingerprint), record.text("fingerprint"));
    EXPECT_EQ(out.layer_count, record.number("layers"));
    EXPECT_EQ(out.runs.size(), record.number("merged"));
    EXPECT_EQ(out.token_bytes, record.number("token_bytes"));
    EXPECT_EQ(out.chunk_bytes, record.number("chunk_bytes"));
    EXPECT_EQ(out.state_bytes, record.number("state_bytes"));
  }
}

TEST(Shape, every_member_of_every_kind_changes_the_fingerprint) {
  const std::vector<std::function<void(kvc_shape &, kvc_layer &)>> changes = {
      [](kvc_shape &, kvc_layer &) {},
      [](kvc_shape &s, kvc_layer &) { s.dtype = KVC_BF16; },
      [](kvc_shape &s, kvc_layer &) { s.chunk_tokens = 128; },
      [](kvc_shape &s, kvc_layer &) { s.rope = KVC_ROPE_HALVES; },
      [](kvc_shape &, kvc_layer &l) { l.count = 2; },
      [](kvc_shape &, kvc_layer &l) { l.kv_heads += l.kind == KVC_LAYER_LATENT ? 0 : 1; },
      [](kvc_shape &, kvc_layer &l) { l.k_dim += 1; },
      [](kvc_shape &, kvc_layer &l) { (l.kind == KVC_LAYER_LATENT ? l.rope_dim : l.v_dim) += 1; },
      [](kvc_shape &, kvc_layer &l) { l.window += l.kind == KVC_LAYER_WINDOW ? 1 : 0; },
      [](kvc_shape &, kvc_layer &l) { l.k_dtype = KVC_F32; },
      [](kvc_shape &, kvc_layer &l) { l.v_dtype = KVC_F32; },
  };
  std::vector<std::string> seen;
  size_t unchanged = 0;
  for (const kvc_layer &base : {full(), window(), latent(), state()}) {
    for (const auto &change : changes) {
      std::vector<kvc_layer> layers = {base};
      kvc_shape shape = shape_of(layers);
      change(shape, layers[0]);
      Shape out;
      Error error;
      ASSERT_EQ(shape_check(out, shape, error), KVC_OK) << error.message;
      const std::string name = golden::hex(out.fingerprint);
      unchanged += std::count(seen.begin(), seen.end(), name) ? 1 : 0;
      seen.push_back(name);
    }
  }
  EXPECT_EQ(unchanged, 4u) << "kv_heads of the latent kind, window of the three others";
}

TEST(Shape, defaults_are_filled_in_and_equal_neighbours_become_one_run) {
  std::vector<kvc_layer> layers = {full(), full(), window(), full()};
  layers[0].count = 3;
  layers[1].k_dtype = layers[1].v_dtype = KVC_F16;
  layers[3].v_dtype = KVC_BF16;
  Shape out;
  Error error;
  ASSERT_EQ(shape_check(out, shape_of(layers), error), KVC_OK) << error.message;
  EXPECT_EQ(out.chunk_tokens, 64u);
  EXPECT_EQ(out.layer_count, 6u);
  ASSERT_EQ(out.runs.size(), 3u);
  EXPECT_EQ(out.runs[0].layer_count, 4u);
  EXPECT_EQ(out.runs[0].k_dtype, static_cast<uint32_t>(KVC_F16));
  EXPECT_EQ(out.runs[2].v_dtype, static_cast<uint32_t>(KVC_BF16));
  for (uint32_t l = 0; l < 6; ++l) {
    const auto &run = out.run_of(l);
    EXPECT_LE(run.layer_begin, l);
    EXPECT_GT(run.layer_begin + run.layer_count, l);
    EXPECT_EQ(run.kind, static_cast<uint32_t>(l == 4 ? KVC_LAYER_WINDOW : KVC_LAYER_FULL));
  }
}

TEST(Shape, rows_of_each_kind_have_the_bytes_their_dtypes_make) {
  std::vector<kvc_layer> layers = {full(), latent(), state()};
  layers[0].k_dtype = KVC_F32;
  layers[1].v_dtype = KVC_BF16;
  kvc_shape shape = shape_of(layers);
  shape.dtype = KVC_F8_E4M3;
  Shape out;
  Error error;
  ASSERT_EQ(shape_check(out, shape, error), KVC_OK) << error.message;
  EXPECT_EQ(out.run_of(0).k_row_bytes(), 512u);
  EXPECT_EQ(out.run_of(0).v_row_bytes(), 128u);
  EXPECT_EQ(out.run_of(0).page_rows(64), 64u);
  EXPECT_EQ(out.run_of(1).k_row_bytes(), 512u);
  EXPECT_EQ(out.run_of(1).v_row_bytes(), 128u) << "the rope part";
  EXPECT_EQ(out.run_of(2).k_row_bytes(), 8192u) << "bytes, whatever the dtype";
  EXPECT_EQ(out.run_of(2).v_row_bytes(), 768u);
  EXPECT_EQ(out.run_of(2).page_rows(64), 1u) << "one snapshot";
}

TEST(Shape, a_state_counts_bytes_whatever_its_dtype_says) {
  for (const uint32_t dtype : {KVC_F32, KVC_F16, KVC_BF16, KVC_F8_E4M3, KVC_U8}) {
    const std::vector<kvc_layer> layers = {changed(state(), [&](kvc_layer &l) { l.k_dtype = l.v_dtype = dtype; })};
    Shape out;
    Error error;
    ASSERT_EQ(shape_check(out, shape_of(layers), error), KVC_OK) << error.message;
    EXPECT_EQ(out.state_bytes, 16u * (8192 + 768));
    EXPECT_EQ(out.token_bytes, 0u);
  }
}

TEST(Shape, members_of_the_shape_itself_are_refused_by_name) {
  const std::vector<kvc_layer> layers = {full()};
  const auto refused = [&](const std::function<void(kvc_shape &)> &change, const std::vector<std::string> &fragments) {
    kvc_shape shape = shape_of(layers);
    change(shape);
    expect_refused(shape, fragments);
  };
  refused([](kvc_shape &s) { s.dtype = 0; }, {"dtype 0"});
  refused([](kvc_shape &s) { s.dtype = 6; }, {"dtype 6"});
  for (const uint32_t tokens : {1u, 8u, 17u, 65u, 272u, 512u, 0xFFFFFFF0u}) {
    refused([&](kvc_shape &s) { s.chunk_tokens = tokens; }, {"chunk_tokens " + std::to_string(tokens), "16", "256"});
  }
  refused([](kvc_shape &s) { s.rope = 4; }, {"rope 4"});
  refused([](kvc_shape &s) { s.layer_runs = 0; }, {"layer_runs 0"});
  refused([](kvc_shape &s) { s.layers = nullptr; }, {"layers NULL"});
  refused([](kvc_shape &s) { s.layer_runs = 65536; }, {"layer_runs 65536", "65535"});
  refused([](kvc_shape &s) { s.layer_runs = UINT64_MAX; }, {"layer_runs 18446744073709551615", "65535"});
}

TEST(Shape, counts_and_members_a_kind_does_not_use_are_refused_by_name) {
  expect_run_refused(changed(full(), [](kvc_layer &l) { l.kind = 0; }), {"kind 0"});
  expect_run_refused(changed(full(), [](kvc_layer &l) { l.kind = 5; }), {"kind 5"});
  expect_run_refused(changed(full(), [](kvc_layer &l) { l.count = 0; }), {"count 0"});
  expect_run_refused(changed(full(), [](kvc_layer &l) { l.count = 65535; }), {"count 65535", "65536", "65535"});
  expect_run_refused(changed(full(), [](kvc_layer &l) { l.count = UINT32_MAX; }), {"count 4294967295"});
  for (const kvc_layer &base : {full(), window(), state()}) {
    expect_run_refused(changed(base, [](kvc_layer &l) { l.kv_heads = 0; }), {"kv_heads 0", "128"});
    expect_run_refused(changed(base, [](kvc_layer &l) { l.kv_heads = 129; }), {"kv_heads 129", "128"});
    expect_run_refused(changed(base, [](kvc_layer &l) { l.rope_dim = 64; }), {"rope_dim 64"});
  }
  for (const kvc_layer &base : {full(), latent(), state()}) {
    expect_run_refused(changed(base, [](kvc_layer &l) { l.window = 128; }), {"window 128"});
  }
  expect_run_refused(changed(window(), [](kvc_layer &l) { l.window = 0; }), {"window 0"});
  expect_run_refused(changed(latent(), [](kvc_layer &l) { l.kv_heads = 2; }), {"kv_heads 2", "latent"});
  expect_run_refused(changed(latent(), [](kvc_layer &l) { l.v_dim = 512; }), {"v_dim 512", "latent"});
  for (int i = 0; i < 3; ++i) {
    expect_run_refused(changed(full(), [&](kvc_layer &l) { l.reserved[i] = 7; }), {"reserved 7"});
  }
}

TEST(Shape, dims_are_refused_by_name) {
  for (const kvc_layer &base : {full(), window(), latent(), state()}) {
    expect_run_refused(changed(base, [](kvc_layer &l) { l.k_dim = 0; }), {"k_dim 0"});
    if (base.kind != KVC_LAYER_STATE) expect_run_refused(changed(base, [](kvc_layer &l) { l.k_dim = 65536; }), {"k_dim 65536", "65535"});
  }
  for (const kvc_layer &base : {full(), window()}) {
    expect_run_refused(changed(base, [](kvc_layer &l) { l.v_dim = 0; }), {"v_dim 0"});
    expect_run_refused(changed(base, [](kvc_layer &l) { l.v_dim = 65536; }), {"v_dim 65536", "65535"});
  }
  expect_run_refused(changed(latent(), [](kvc_layer &l) { l.rope_dim = UINT32_MAX; }), {"rope_dim 4294967295", "65535"});
}

TEST(Shape, dtypes_are_refused_by_name) {
  for (const kvc_layer &base : {full(), window(), latent(), state()}) {
    expect_run_refused(changed(base, [](kvc_layer &l) { l.k_dtype = 6; }), {"k_dtype 6"});
    expect_run_refused(changed(base, [](kvc_layer &l) { l.v_dtype = 6; }), {"v_dtype 6"});
    if (base.kind == KVC_LAYER_STATE) continue;
    expect_run_refused(changed(base, [](kvc_layer &l) { l.k_dtype = KVC_U8; }), {"k_dtype", "state"});
    expect_run_refused(changed(base, [](kvc_layer &l) { l.v_dtype = KVC_U8; }), {"v_dtype", "state"});
  }
  expect_run_refused(changed(latent(), [](kvc_layer &l) { l.rope_dim = 0, l.v_dtype = KVC_F32; }), {"v_dtype 1", "second part"});
  expect_run_refused(changed(state(), [](kvc_layer &l) { l.v_dim = 0, l.v_dtype = KVC_U8; }), {"v_dtype 5", "second part"});

  const std::vector<kvc_layer> layers = {full()};
  kvc_shape shape = shape_of(layers);
  shape.dtype = KVC_U8;
  expect_refused(shape, {"run 0", "k_dtype", "state"});
}

TEST(Shape, pages_over_four_gigabytes_are_refused_and_the_largest_shape_overflows_nothing) {
  expect_run_refused(changed(state(), [](kvc_layer &l) { l.kv_heads = 128, l.k_dim = UINT32_MAX; }), {"k_dim 4294967295", "549755813760"});
  expect_run_refused(changed(state(), [](kvc_layer &l) { l.kv_heads = 2, l.v_dim = 1u << 31; }), {"v_dim 2147483648", "4294967296"});

  std::vector<kvc_layer> layers = {changed(full(), [](kvc_layer &l) { l.kv_heads = 128, l.k_dim = l.v_dim = 65535; })};
  kvc_shape shape = shape_of(layers);
  shape.chunk_tokens = 256;
  shape.dtype = KVC_F32;
  expect_refused(shape, {"run 0", "k_dim 65535", "8589803520"});
  shape.dtype = KVC_F8_E4M3;  // 128 x 256 x 65535 bytes a part: under the limit
  layers[0].count = 65535;
  Shape out;
  Error error;
  ASSERT_EQ(shape_check(out, shape, error), KVC_OK) << error.message;
  EXPECT_EQ(out.token_bytes, 1099478073600u);
  EXPECT_EQ(out.chunk_bytes, 281466386841600u);

  layers = {changed(state(), [](kvc_layer &l) { l.count = 65535, l.kv_heads = 1, l.k_dim = l.v_dim = UINT32_MAX; })};
  ASSERT_EQ(shape_check(out, shape_of(layers), error), KVC_OK) << error.message;
  EXPECT_EQ(out.state_bytes, 65535ull * 2 * UINT32_MAX);
}

TEST(Shape, as_many_runs_as_layers_are_taken) {
  std::vector<kvc_layer> layers;
  for (uint32_t i = 0; i < 65535; ++i) layers.push_back(changed(window(), [&](kvc_layer &l) { l.window = 1 + i % 2; }));
  Shape out;
  Error error;
  ASSERT_EQ(shape_check(out, shape_of(layers), error), KVC_OK) << error.message;
  EXPECT_EQ(out.runs.size(), 65535u);
  EXPECT_EQ(out.run_of(65534).layer_begin, 65534u);
}

}  // namespace
