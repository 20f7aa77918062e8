#pragma once
#include <functional>
#include <memory>

#include "../api/host.h"

/// A host of a model whose layers differ: every run is one layer, packed, its elements stamped with writer, layer, token, head and dim.
namespace kvc_test {

inline kvc_layer latent_layers(uint32_t count, uint32_t k_dim, uint32_t rope_dim, uint32_t k_dtype = 0, uint32_t v_dtype = 0) {
  return {count, KVC_LAYER_LATENT, 1, k_dim, 0, rope_dim, 0, k_dtype, v_dtype, {0, 0, 0}};
}
inline kvc_layer window_layers(uint32_t count, uint32_t heads, uint32_t k_dim, uint32_t v_dim, uint32_t window) {
  return {count, KVC_LAYER_WINDOW, heads, k_dim, v_dim, 0, window, 0, 0, {0, 0, 0}};
}
inline kvc_layer state_layers(uint32_t count, uint32_t heads, uint32_t first_bytes, uint32_t second_bytes) {
  return {count, KVC_LAYER_STATE, heads, first_bytes, second_bytes, 0, 0, 0, 0, {0, 0, 0}};
}

/// Whose stamp a position has: of one writer, or by position (a snapshot's is that of its end).
struct Writer {
  std::function<uint64_t(uint64_t position)> of;
  Writer(int one) : of([one](uint64_t) { return static_cast<uint64_t>(one); }) {}
  explicit Writer(std::function<uint64_t(uint64_t)> by_position) : of(std::move(by_position)) {}
};

/// Rows of one layer in memory of the test's own.
struct Moved {
  kvc_layer layer;
  uint32_t index;
  uint64_t begin, end, element;
  std::vector<uint8_t> k, v;
  kvc_rows rows;

  bool is_state() const { return layer.kind == KVC_LAYER_STATE; }
  uint64_t k_bytes() const { return layer.kv_heads * layer.k_dim * element; }  // of a row, all heads
  uint64_t v_bytes() const { return layer.kv_heads * (layer.v_dim + layer.rope_dim) * element; }
  /// The bytes that `writer` has at these places; a state's are those of the position it is valid at.
  std::vector<uint8_t> stamped(const Writer &writer, bool is_k) const {
    const uint64_t dims = is_k ? layer.k_dim : layer.v_dim + layer.rope_dim;
    std::vector<uint8_t> out;
    for (uint64_t t = is_state() ? end : begin; t < (is_state() ? end + 1 : end); t++) {
      const uint64_t by = writer.of(t);
      for (uint64_t h = 0; h < layer.kv_heads; h++)
        for (uint64_t d = 0; d < dims; d++) {
          const uint64_t bits = stamp(by, is_k, index, t, h, d);
          out.insert(out.end(), reinterpret_cast<const uint8_t *>(&bits), reinterpret_cast<const uint8_t *>(&bits) + element);
        }
    }
    return out;
  }
};

/// Owns what its rows point to: vectors that moved keep their memory.
struct Moves {
  std::vector<std::unique_ptr<Moved>> list;

  std::vector<kvc_rows> rows() const {
    std::vector<kvc_rows> out;
    for (const auto &move : list) out.push_back(move->rows);
    return out;
  }
  Moves &operator+=(Moves &&more) {
    for (auto &move : more.list) list.push_back(std::move(move));
    return *this;
  }
};

struct HybridHost : Host {
  std::vector<kvc_layer> layers;  // one entry a layer
  uint32_t dtype;

  HybridHost(const std::vector<kvc_layer> &runs, uint32_t dtype_of, uint32_t chunk_tokens, uint64_t memory_bytes = 64u << 20, uint32_t flags = 0)
      : HybridHost(held_for_ever(options_of(memory_bytes, flags)), runs, dtype_of, chunk_tokens) {}
  HybridHost(const kvc_store_options &options, const std::vector<kvc_layer> &runs, uint32_t dtype_of, uint32_t chunk_tokens)
      : Host(options, runs, dtype_of, chunk_tokens), dtype(dtype_of) {
    for (const kvc_layer &run : runs) layers.insert(layers.end(), run.count, run);
  }

  /// No lease lapses because the machine is slow.
  static kvc_store_options held_for_ever(kvc_store_options options) {
    options.lease_ms = KVC_FOREVER;
    return options;
  }
  Moves target(uint32_t index, uint64_t begin, uint64_t end) const {
    auto moved = std::make_unique<Moved>();
    moved->layer = layers[index], moved->index = index, moved->begin = begin, moved->end = end;
    moved->element = moved->is_state() ? 1 : dtype_size(dtype);
    const uint64_t count = moved->is_state() ? 1 : end - begin;
    moved->k = poisoned(count * moved->k_bytes());
    moved->v = poisoned(count * moved->v_bytes());
    moved->rows = sized<kvc_rows>();
    kvc_rows &rows = moved->rows;
    rows.layer_begin = index, rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = moved->k.data(), rows.k.bytes = moved->k.size();
    if (!moved->v.empty()) rows.v.data = moved->v.data(), rows.v.bytes = moved->v.size();
    Moves out;
    out.list.push_back(std::move(moved));
    return out;
  }
  Moves source(uint32_t index, uint64_t begin, uint64_t end, const Writer &writer) const {
    Moves out = target(index, begin, end);
    Moved &moved = *out.list[0];
    const std::vector<uint8_t> k = moved.stamped(writer, true), v = moved.stamped(writer, false);
    std::copy(k.begin(), k.end(), moved.k.begin());
    std::copy(v.begin(), v.end(), moved.v.begin());
    return out;
  }
  /// Layers of one kind (0: all).
  Moves sources(uint64_t begin, uint64_t end, const Writer &writer, uint32_t kind = 0) const {
    Moves out;
    for (uint32_t l = 0; l < layers.size(); l++)
      if (kind == 0 || layers[l].kind == kind) out += source(l, begin, end, writer);
    return out;
  }
  kvc_status append_all(kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end, const Writer &writer) {
    const Moves moves = sources(begin, end, writer);
    return append(seq, {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}, moves.rows());
  }
  /// Rows [begin, end) of a layer are those of `writer`; a state's snapshot is that at `end`.
  void expect_rows(const kvc_seq *seq, uint32_t index, uint64_t begin, uint64_t end, const Writer &writer) {
    const Moves moves = target(index, begin, end);
    ASSERT_EQ(gather(seq, moves.rows()), KVC_OK) << "layer " << index << " [" << begin << ", " << end << "): " << error.message;
    const Moved &got = *moves.list[0];
    EXPECT_TRUE(got.k == got.stamped(writer, true)) << "k of layer " << index << " [" << begin << ", " << end << ") is another's";
    EXPECT_TRUE(got.v == got.stamped(writer, false)) << "v of layer " << index << " [" << begin << ", " << end << ") is another's";
  }
  void expect_refused(const kvc_seq *seq, uint32_t index, uint64_t begin, uint64_t end, kvc_status status) {
    const Moves moves = target(index, begin, end);
    EXPECT_EQ(gather(seq, moves.rows()), status) << "layer " << index << " [" << begin << ", " << end << "): " << error.message;
    const Moved &got = *moves.list[0];
    EXPECT_TRUE(got.k == poisoned(got.k.size())) << "layer " << index << ": a refused gather wrote to k";
  }
  kvc_match_info look(const std::vector<int32_t> &tokens, SeqHandle *seq = nullptr) {
    auto info = sized<kvc_match_info>();
    auto options = sized<kvc_seq_options>();
    if (!seq) options.flags = KVC_SEQ_PEEK;
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_match(seq ? &out : nullptr, &info, scope, tokens.data(), tokens.size(), &options, nullptr, &error), KVC_OK) << error.message;
    if (seq) *seq = SeqHandle(out);
    return info;
  }
};

}  // namespace kvc_test
