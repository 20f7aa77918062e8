// One promise each that a build which is wrong on purpose (KVC_MUTATE) breaks; what a flipped bit may do is in tests/model/gone_test.cpp.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "host.h"

namespace kvc_test {
namespace {

constexpr uint32_t kLayers = 2, kDim = 64, kTokens = 64, kChunk = 16;
constexpr uint64_t kMemory = 4u << 20;
using Rows = std::vector<uint32_t>;

/// Tokens [0, kTokens) of one layer, or of all.
Rows rows_of(uint64_t writer, uint32_t layer, uint32_t layer_count) {
  Rows rows;
  for (uint64_t l = layer; l < layer + layer_count; l++)
    for (uint64_t t = 0; t < kTokens; t++)
      for (uint64_t d = 0; d < kDim; d++) rows.push_back(static_cast<uint32_t>(stamp(writer, true, l, t, 0, d)));
  return rows;
}

kvc_rows run_of(Rows &rows, uint32_t layer, uint32_t layer_count) {
  auto run = sized<kvc_rows>();
  run.layer_begin = layer, run.layer_count = layer_count, run.token_count = kTokens;
  run.k.data = run.v.data = rows.data();
  run.k.bytes = run.v.bytes = rows.size() * sizeof(uint32_t);
  run.k.layer_stride = run.v.layer_stride = uint64_t{kTokens} * kDim * sizeof(uint32_t);
  return run;
}

struct Fixture : Host {
  Fixture() : Host({full_layers(kLayers, 1, kDim, kDim)}, KVC_F32, kChunk, kMemory) {}

  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t writer, uint32_t layer, uint32_t layer_count) {
    Rows rows = rows_of(writer, layer, layer_count);
    return Host::append(seq, tokens, {run_of(rows, layer, layer_count)});
  }
  /// The rows as they are read; empty: they are not.
  Rows read(const kvc_seq *seq) {
    Rows rows(static_cast<size_t>(kLayers) * kTokens * kDim);
    kvc_rows run = run_of(rows, 0, kLayers);
    run.v.data = nullptr;
    return gather(seq, {run}) == KVC_OK ? rows : Rows{};
  }
  uint64_t found(const kvc_scope *in, const std::vector<int32_t> &tokens, const kvc_seq_options *options = nullptr) {
    auto info = sized<kvc_match_info>();
    kvc_seq *seq = nullptr;
    EXPECT_EQ(kvc_match(&seq, &info, in, tokens.data(), tokens.size(), options, nullptr, &error), KVC_OK) << error.message;
    SeqHandle ends(seq);
    return info.tokens;
  }
  /// Several times what the store holds.
  void press() {
    std::vector<uint8_t> value(64u << 10, 0x5A);
    kvc_bytes part{value.data(), value.size()};
    for (uint64_t i = 0; i < 4 * kMemory / value.size(); i++) {
      const std::string key = "press" + std::to_string(i);
      kvc_object object{};
      object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
      ASSERT_EQ(kvc_object_put(nullptr, scope, &object, 1, nullptr, nullptr, &error), KVC_OK) << error.message;
    }
  }
};

TEST(Promise, ALeasedChunkSurvivesAnyPressureAndGoesWhenTheLeaseEnds) {
  Fixture host;
  const std::vector<int32_t> tokens = ids(kTokens);
  SeqHandle first = host.create();
  ASSERT_EQ(host.append(first, tokens, 1, 0, kLayers), KVC_OK) << host.error.message;
  first.reset();  // may be evicted from here on
  auto options = sized<kvc_seq_options>();
  options.lease_ms = KVC_FOREVER;
  SeqHandle matched;
  ASSERT_EQ(kvc_match(matched.out(), nullptr, host.scope, tokens.data(), tokens.size(), &options, nullptr, &host.error), KVC_OK);
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), matched, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  host.press();
  EXPECT_EQ(host.read(matched), rows_of(1, 0, kLayers)) << host.error.message;
  matched.reset();
  host.press();
  EXPECT_EQ(host.found(host.scope, tokens), kTokens) << "the lease outlives the sequence";
  lease.reset();
  host.press();
  EXPECT_EQ(host.found(host.scope, tokens), 0u) << "there was no pressure";
}

TEST(Promise, NoChunkIsVisibleBeforeAllItsLayersAreStored) {
  Fixture host;
  const std::vector<int32_t> tokens = ids(kTokens);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append(seq, tokens, 1, 1, 1), KVC_OK) << host.error.message;
  EXPECT_EQ(host.found(host.scope, tokens), 0u) << "layer 0 was not given";
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens, 0u);
  EXPECT_EQ(info.tokens_sealed, 0u);
  ASSERT_EQ(host.append(seq, {}, 1, 0, 1), KVC_OK) << host.error.message;
  EXPECT_EQ(host.found(host.scope, tokens), kTokens);
  EXPECT_EQ(host.read(seq), rows_of(1, 0, kLayers));
}

TEST(Promise, ASaltAndAnExtraSeparate) {
  Fixture host;
  const kvc_layer layers = full_layers(kLayers, 1, kDim, kDim);
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F32, shape.chunk_tokens = kChunk, shape.layers = &layers, shape.layer_runs = 1;
  const auto scope = [&](const char *adapter, const std::string &salt) {
    auto options = sized<kvc_scope_options>();
    options.model = "model", options.adapter = adapter, options.shape = &shape;
    options.salt = salt.data(), options.salt_size = salt.size();
    ScopeHandle handle;
    EXPECT_EQ(kvc_scope_create(handle.out(), host.store, &options, &host.error), KVC_OK) << host.error.message;
    return handle;
  };
  // The same bytes, cut between adapter and salt in another place.
  const ScopeHandle writer = scope("ab", "cd");
  const std::vector<int32_t> tokens = ids(kTokens);
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), writer, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(host.append(seq, tokens, 1, 0, kLayers), KVC_OK) << host.error.message;
  EXPECT_EQ(host.found(scope("ab", "cd"), tokens), kTokens) << "equal names are one scope";
  for (const auto &[adapter, salt] : std::vector<std::pair<const char *, std::string>>{{"abc", "d"}, {"a", "bcd"}, {"abcd", ""}, {"", "abcd"}, {"ab", "ce"}})
    EXPECT_EQ(host.found(scope(adapter, salt), tokens), 0u) << "adapter " << adapter << ", salt " << salt;

  const kvc_extra extra{20, 4, "image", 5};
  auto options = sized<kvc_seq_options>();
  options.extras = &extra, options.extra_count = 1;
  EXPECT_EQ(host.found(writer, tokens, &options), kChunk) << "from the chunk on that the extra stands in";
}

}  // namespace
}  // namespace kvc_test
