#pragma once
#include <functional>

#include "base/clock.h"
#include "seam_store.h"
#include "store_info.h"

namespace kvc_test {

/// A small store whose every element says who wrote it, and of which token: 3 layers, 2 heads, K of 8 and V of 6 numbers, chunks of 16 tokens.
struct StampedStore : testing::Test {
  static constexpr uint32_t layers = 3, heads = 2, k_dim = 8, v_dim = 6, chunk = 16;
  /// Who wrote a row, and as which token.
  struct Origin {
    uint64_t writer, token;
  };
  using Origins = std::function<Origin(uint64_t token)>;

  kvc::base::ManualClock clock;
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;
  int32_t fresh = 1000;  // salt of sequences that only make pressure

  void open(uint64_t memory_bytes = 1u << 20, uint32_t flags = 0, const std::function<void(kvc_store_options &)> &set = {}) {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes, options.lease_ms = 1000, options.flags = flags;
    if (set) set(options);
    store = open_with({.clock = &clock}, options);
    scope = make_scope("stamped");
  }
  ScopeHandle make_scope(const char *model, uint64_t bytes_max = 0) {
    return kvc_test::make_scope(store, model, {full_layers(layers, heads, k_dim, v_dim)}, KVC_F16, chunk, bytes_max);
  }
  SeqHandle create(uint32_t flags = 0, const kvc_scope *of = nullptr) {
    auto options = sized<kvc_seq_options>();
    options.flags = flags;
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_seq_create(&out, of ? of : scope, &options, &error), KVC_OK) << error.message;
    return SeqHandle(out);
  }
  SeqHandle fork(const kvc_seq *seq, uint64_t tokens = KVC_ALL) {
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_seq_fork(&out, seq, tokens, &error), KVC_OK) << error.message;
    return SeqHandle(out);
  }
  /// Ids that `writer` gives to tokens [begin, end).
  static std::vector<int32_t> ids_of(uint64_t writer, uint64_t begin, uint64_t end) {
    std::vector<int32_t> all = ids(end, static_cast<int32_t>(writer));
    return {all.begin() + static_cast<int64_t>(begin), all.end()};
  }
  SeqHandle match(uint64_t writer, uint64_t tokens, uint64_t *length) {
    const auto all = ids_of(writer, 0, tokens);
    auto info = sized<kvc_match_info>();
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_match(&out, &info, scope, all.data(), all.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
    *length = info.tokens;
    return SeqHandle(out);
  }
  static uint16_t element(uint64_t writer, bool is_k, uint64_t layer, uint64_t token, uint64_t head, uint64_t dim) {
    return static_cast<uint16_t>(stamp(writer, is_k, layer, token, head, dim) >> 16);
  }

  /// Rows of layers [layer, layer + count) for tokens [begin, end), tokens first, in memory that `rows` points to.
  static kvc_rows rows_in(std::vector<uint16_t> &k, std::vector<uint16_t> &v, uint64_t begin, uint64_t end, uint32_t layer = 0, uint32_t count = layers) {
    const uint64_t tokens = end - begin;
    k.assign(count * tokens * heads * k_dim, 0xDEAD), v.assign(count * tokens * heads * v_dim, 0xBEEF);
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = count, rows.token_begin = begin, rows.token_count = tokens;
    rows.k.data = k.data(), rows.k.bytes = k.size() * 2, rows.k.layer_stride = tokens * heads * k_dim * 2;
    rows.v.data = v.data(), rows.v.bytes = v.size() * 2, rows.v.layer_stride = tokens * heads * v_dim * 2;
    return rows;
  }
  kvc_status append(kvc_seq *seq, uint64_t writer, uint64_t begin, uint64_t end, bool with_ids = true, uint32_t layer = 0, uint32_t count = layers) {
    std::vector<uint16_t> k, v;
    const kvc_rows rows = rows_in(k, v, begin, end, layer, count);
    for (uint32_t l = 0; l < count; l++)
      for (uint64_t t = begin; t < end; t++)
        for (uint64_t h = 0; h < heads; h++) {
          const uint64_t row = (l * (end - begin) + t - begin) * heads + h;
          for (uint64_t d = 0; d < k_dim; d++) k[row * k_dim + d] = element(writer, true, layer + l, t, h, d);
          for (uint64_t d = 0; d < v_dim; d++) v[row * v_dim + d] = element(writer, false, layer + l, t, h, d);
        }
    const auto tokens = with_ids ? ids_of(writer, begin, end) : std::vector<int32_t>{};
    return kvc_append(seq, tokens.data(), tokens.size(), &rows, 1, nullptr, &error);
  }
  /// A sequence of `tokens` rows of one writer.
  SeqHandle written(uint64_t writer, uint64_t tokens, uint32_t flags = 0) {
    SeqHandle seq = create(flags);
    EXPECT_EQ(append(seq, writer, 0, tokens), KVC_OK) << error.message;
    return seq;
  }
  /// Every element of tokens [begin, end) is the one its origin wrote.
  void expect_rows(const kvc_seq *seq, uint64_t begin, uint64_t end, const Origins &of, uint32_t layer = 0, uint32_t count = layers) {
    std::vector<uint16_t> k, v;
    const kvc_rows rows = rows_in(k, v, begin, end, layer, count);
    ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, nullptr, &error), KVC_OK) << error.message;
    uint64_t wrong = 0;
    for (uint32_t l = 0; l < count; l++)
      for (uint64_t t = begin; t < end; t++)
        for (uint64_t h = 0; h < heads; h++) {
          const uint64_t row = (l * (end - begin) + t - begin) * heads + h;
          const Origin o = of(t);
          for (uint64_t d = 0; d < k_dim; d++) wrong += k[row * k_dim + d] != element(o.writer, true, layer + l, o.token, h, d);
          for (uint64_t d = 0; d < v_dim; d++) wrong += v[row * v_dim + d] != element(o.writer, false, layer + l, o.token, h, d);
        }
    EXPECT_EQ(wrong, 0u) << "elements of tokens [" << begin << ", " << end << ")";
  }
  void expect_rows(const kvc_seq *seq, uint64_t begin, uint64_t end, uint64_t writer) {
    expect_rows(seq, begin, end, [=](uint64_t t) { return Origin{writer, t}; });
  }
  /// Chunks of others, one after another, so that whatever nobody holds is evicted.
  void pressure() {
    const uint64_t evicted = metrics().evicted_chunks + 600;  // more than a store of 2 MiB has
    while (metrics().evicted_chunks < evicted) {
      SeqHandle seq = create();
      ASSERT_EQ(append(seq, static_cast<uint64_t>(fresh++), 0, chunk), KVC_OK) << error.message;
    }
  }
  kvc_store_info info() { return store_info(store); }
  kvc_metrics metrics() { return store_metrics(store); }
  kvc_seq_info info(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &error), KVC_OK) << error.message;
    return out;
  }
  /// The call was refused with this status and a line that has these words.
  void expect_refused(kvc_status status, kvc_status expected, std::initializer_list<const char *> words) {
    EXPECT_EQ(status, expected) << error.message;
    for (const char *word : words) EXPECT_NE(error.text().find(word), std::string::npos) << word << ": " << error.message;
    error = ErrorText();
  }
};

}  // namespace kvc_test
