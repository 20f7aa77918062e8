#pragma once
#include <algorithm>
#include <functional>
#include <list>

#include "base/clock.h"
#include "seam_store.h"
#include "store_info.h"

namespace kvc_test {

/// Layers and heads as a rank names them; counts 0: all.
struct Range {
  uint32_t layer_begin = 0, layer_count = 0, head_begin = 0, head_count = 0;
};

/// A store of a model of 4 layers with 8 KV heads, of which hosts write and read parts; every element says whose it is.  Chunks of 16 tokens.  A
/// snapshot of a state layer is taken to be of 16-bit elements too, stamped with the position behind its tokens.
struct PartsHost {
  static constexpr uint32_t chunk = 16, heads = 8, k_dim = 8, v_dim = 6;

  kvc::base::ManualClock clock;
  ErrorText error;
  std::vector<kvc_layer> layers;  // one each
  StoreHandle store;
  ScopeHandle scope;
  int32_t fresh = 1000;  // salt of sequences that only make pressure

  explicit PartsHost(std::vector<kvc_layer> of = {full_layers(4, heads, k_dim, v_dim)}, uint64_t memory_bytes = 4u << 20, uint32_t flags = 0, kvc::io::FileSystem *files = nullptr, const kvc_store_options *given = nullptr) {
    for (const kvc_layer &run : of)
      for (uint32_t i = 0; i < run.count; i++) layers.push_back(run), layers.back().count = 1;
    auto options = given ? *given : sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes, options.lease_ms = 1000, options.flags = flags;
    kvc::store::Seams seams;
    seams.clock = &clock;
    if (files) seams.files = files;
    store = open_with(seams, options);
    auto shape = sized<kvc_shape>();
    shape.dtype = KVC_F16, shape.chunk_tokens = chunk, shape.layers = layers.data(), shape.layer_runs = layers.size();
    auto scope_options = sized<kvc_scope_options>();
    scope_options.model = "split", scope_options.shape = &shape;
    EXPECT_EQ(kvc_scope_create(scope.out(), store, &scope_options, &error), KVC_OK) << error.message;
  }
  /// One that saves to a disk in memory.
  explicit PartsHost(kvc::io::FileSystem &files, std::vector<kvc_layer> of = {full_layers(4, heads, k_dim, v_dim)}) : PartsHost(std::move(of), 4u << 20, 0, &files) {}
  static kvc_seq_options options_of(const Range &r, uint8_t engine, uint32_t flags = 0) {
    auto o = sized<kvc_seq_options>();
    o.flags = flags;
    o.layer_begin = r.layer_begin, o.layer_count = r.layer_count, o.head_begin = r.head_begin, o.head_count = r.head_count;
    std::fill(std::begin(o.write_id), std::end(o.write_id), engine);  // 0: drawn
    return o;
  }
  kvc_status try_create(const Range &r, uint8_t engine = 0, uint32_t flags = 0, kvc_seq **out = nullptr) {
    const auto o = options_of(r, engine, flags);
    kvc_seq *made = nullptr;
    const kvc_status status = kvc_seq_create(&made, scope, &o, &error);
    if (out) *out = made;
    else EXPECT_EQ(kvc_seq_release(made, nullptr), KVC_OK);
    return status;
  }
  SeqHandle create(const Range &r, uint8_t engine = 0, uint32_t flags = 0) {
    kvc_seq *out = nullptr;
    EXPECT_EQ(try_create(r, engine, flags, &out), KVC_OK) << error.message;
    return SeqHandle(out);
  }
  SeqHandle match(const Range &r, const std::vector<int32_t> &tokens, uint64_t *length, uint8_t engine = 0) {
    const auto o = options_of(r, engine);
    auto info = sized<kvc_match_info>();
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_match(&out, &info, scope, tokens.data(), tokens.size(), &o, nullptr, &error), KVC_OK) << error.message;
    *length = info.tokens;
    return SeqHandle(out);
  }
  /// Tokens that a match of this part finds, which is no use of them.
  uint64_t found(const Range &r, const std::vector<int32_t> &tokens) {
    const auto o = options_of(r, 0, KVC_SEQ_PEEK);
    auto info = sized<kvc_match_info>();
    EXPECT_EQ(kvc_match(nullptr, &info, scope, tokens.data(), tokens.size(), &o, nullptr, &error), KVC_OK) << error.message;
    return info.tokens;
  }

  /// Rows of one layer in memory of their own, tokens first.
  struct Moved {
    std::vector<uint16_t> k, v;
    kvc_rows rows = sized<kvc_rows>();
    uint32_t layer = 0, head_begin = 0, head_count = 0, k_dim = 0, v_dim = 0;
    uint64_t begin = 0, end = 0;  // of a snapshot its position, and one more

    template <typename Do>
    void each(Do &&act) {
      for (uint64_t t = begin; t < end; t++)
        for (uint32_t h = 0; h < head_count; h++) {
          const uint64_t row = (t - begin) * head_count + h;
          for (uint32_t d = 0; d < k_dim; d++) act(k[row * k_dim + d], true, t, head_begin + h, d);
          for (uint32_t d = 0; d < v_dim; d++) act(v[row * v_dim + d], false, t, head_begin + h, d);
        }
    }
  };
  static uint16_t element(uint64_t writer, bool is_k, uint32_t layer, uint64_t token, uint32_t head, uint32_t dim) {
    return static_cast<uint16_t>(stamp(writer, is_k, layer, token, head, dim) >> 16);
  }
  Moved &moved(std::list<Moved> &out, uint32_t layer, uint32_t head_begin, uint32_t head_count, uint64_t begin, uint64_t end) const {
    Moved &m = out.emplace_back();
    const kvc_layer &of = layers[layer];
    const bool state = of.kind == KVC_LAYER_STATE;
    m.layer = layer, m.head_begin = head_begin, m.head_count = head_count, m.begin = state ? end : begin, m.end = state ? end + 1 : end;
    m.k_dim = state ? of.k_dim / 2 : of.k_dim, m.v_dim = state ? of.v_dim / 2 : of.kind == KVC_LAYER_LATENT ? of.rope_dim : of.v_dim;
    const uint64_t rows = (m.end - m.begin) * head_count;
    m.k.assign(rows * m.k_dim, 0xDEAD), m.v.assign(rows * m.v_dim, 0xBEEF);
    m.rows.layer_begin = layer, m.rows.layer_count = 1, m.rows.head_begin = head_begin, m.rows.head_count = head_count;
    m.rows.token_begin = begin, m.rows.token_count = end - begin;
    m.rows.k.data = m.k.data(), m.rows.k.bytes = m.k.size() * 2;
    m.rows.v.data = m.v.data(), m.rows.v.bytes = m.v.size() * 2;
    return m;
  }
  /// All rows of a part; of window layers those from `windows_from` on, if that is behind `begin`.  `kind`: of layers of one kind (0: all).
  std::list<Moved> rows_of(const Range &r, uint64_t begin, uint64_t end, uint64_t windows_from = 0, uint32_t kind = 0) const {
    std::list<Moved> out;
    const uint32_t stop = r.layer_count ? r.layer_begin + r.layer_count : static_cast<uint32_t>(layers.size());
    for (uint32_t l = r.layer_begin; l < stop; l++) {
      if (kind && layers[l].kind != kind) continue;
      const bool split = layers[l].kv_heads > 1 && r.head_count;
      moved(out, l, split ? r.head_begin : 0, split ? r.head_count : layers[l].kv_heads, layers[l].kind == KVC_LAYER_WINDOW ? std::max(begin, windows_from) : begin, end);
    }
    return out;
  }
  /// The first position that a window layer still sees at `end`.
  uint64_t seen_from(uint64_t end) const {
    uint64_t window = 0;
    for (const kvc_layer &layer : layers) window = std::max<uint64_t>(window, layer.window);
    return end + 1 > window ? end + 1 - window : 0;
  }
  static std::vector<kvc_rows> runs_of(const std::list<Moved> &list) {
    std::vector<kvc_rows> rows;
    for (const Moved &m : list) rows.push_back(m.rows);
    return rows;
  }
  /// Tokens [begin, end) of `tokens` with the rows of a part.
  kvc_status append(kvc_seq *seq, const Range &r, uint64_t writer, const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end, bool with_ids = true, uint64_t windows_from = 0, uint32_t kind = 0) {
    auto list = rows_of(r, begin, end, windows_from, kind);
    for (Moved &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { e = element(writer, is_k, m.layer, t, h, d); });
    const auto rows = runs_of(list);
    return kvc_append(seq, with_ids ? tokens.data() + begin : nullptr, with_ids ? end - begin : 0, rows.data(), rows.size(), nullptr, &error);
  }
  SeqHandle written(const Range &r, uint8_t engine, uint64_t writer, const std::vector<int32_t> &tokens, uint32_t flags = 0) {
    SeqHandle seq = create(r, engine, flags);
    EXPECT_EQ(append(seq, r, writer, tokens, 0, tokens.size()), KVC_OK) << error.message;
    return seq;
  }
  /// Who wrote a row that is read.
  using Writers = std::function<uint64_t(uint32_t layer, uint64_t token, uint32_t head)>;
  void expect_rows(const kvc_seq *seq, const Range &r, uint64_t begin, uint64_t end, const Writers &writer, uint64_t windows_from = 0, uint32_t kind = 0) {
    auto list = rows_of(r, begin, end, windows_from, kind);
    const auto rows = runs_of(list);
    ASSERT_EQ(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &error), KVC_OK) << error.message;
    uint64_t wrong = 0;
    for (Moved &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { wrong += e != element(writer(m.layer, t, h), is_k, m.layer, t, h, d); });
    EXPECT_EQ(wrong, 0u) << "elements of layers from " << r.layer_begin << ", heads from " << r.head_begin << ", tokens [" << begin << ", " << end << ")";
  }
  void expect_rows(const kvc_seq *seq, const Range &r, uint64_t begin, uint64_t end, uint64_t writer) {
    expect_rows(seq, r, begin, end, [=](uint32_t, uint64_t, uint32_t) { return writer; });
  }
  /// All that a sequence can be gone on from: rows of full layers, those that windows see, the snapshot at its end.
  void expect_all(const kvc_seq *seq, const Range &r, uint64_t end, const Writers &writer) { expect_rows(seq, r, 0, end, writer, seen_from(end)); }
  void expect_all(const kvc_seq *seq, const Range &r, uint64_t end, uint64_t writer) {
    expect_all(seq, r, end, [=](uint32_t, uint64_t, uint32_t) { return writer; });
  }
  kvc_seq_info info(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &error), KVC_OK) << error.message;
    return out;
  }
  kvc_scope_info scope_info() {
    auto out = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_scope_get_info(&out, scope, &error), KVC_OK) << error.message;
    return out;
  }
  /// Chunks of others, so that whatever nobody holds is evicted.
  void pressure(uint64_t evictions) {
    const uint64_t wanted = store_metrics(store).evicted_chunks + evictions;
    while (store_metrics(store).evicted_chunks < wanted) {
      const auto tokens = ids(chunk, fresh++);
      SeqHandle seq = create({});
      ASSERT_EQ(append(seq, {}, 9, tokens, 0, chunk), KVC_OK) << error.message;
    }
  }
  void expect_refused(kvc_status status, kvc_status expected, std::initializer_list<const char *> words) {
    EXPECT_EQ(status, expected) << error.message;
    for (const char *word : words) EXPECT_NE(error.text().find(word), std::string::npos) << word << ": " << error.message;
    error = ErrorText();
  }
};

constexpr Range whole{};
/// Rank of so many that split the heads.
constexpr Range tp(uint32_t rank, uint32_t of) { return {0, 0, rank * (PartsHost::heads / of), PartsHost::heads / of}; }
/// Rank of two that split the layers.
constexpr Range pp(uint32_t rank) { return {rank * 2, 2, 0, 0}; }

}  // namespace kvc_test
