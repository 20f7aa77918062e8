#pragma once
#include <algorithm>
#include <functional>
#include <random>

#include "host.h"

/// The layouts of engines, each twice: as kvc_rows describe it (strides), and as the engine does (indices of an array).  The second is
/// the oracle of the first.
namespace kvc_test {

struct Geometry {
  uint32_t layers, heads, k_dim, v_dim;
  uint64_t tokens;  // held in the layout
  uint64_t e = 2;   // bytes of an element, of both sides
};

struct Layout {
  std::string name;
  uint64_t bytes = 0;
  std::vector<kvc_rows> rows;  // data: an offset until bind()
  std::vector<int32_t> table;
  std::function<uint64_t(bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d)> at;  // byte offset of an element

  /// The description over memory at `base`.
  std::vector<kvc_rows> bind(uint8_t *base) const {
    std::vector<kvc_rows> out = rows;
    for (kvc_rows &r : out) {
      for (kvc_array *a : {&r.k, &r.v}) {
        const auto offset = reinterpret_cast<uint64_t>(a->data);
        a->data = base + offset;
        a->bytes = bytes - offset;
      }
      if (r.block_tokens) r.blocks = table.data(), r.block_count = table.size();
    }
    return out;
  }
};

namespace layout_detail {

inline void *offset(uint64_t bytes) { return reinterpret_cast<void *>(bytes); }

inline kvc_rows all_rows(const Geometry &g) {
  auto rows = sized<kvc_rows>();
  rows.layer_count = g.layers;
  rows.token_count = g.tokens;
  return rows;
}

/// `count` distinct numbers below `max`, in no order.
inline std::vector<int32_t> scattered(uint64_t count, uint64_t max, unsigned seed) {
  std::vector<int32_t> all(max);
  for (uint64_t i = 0; i < max; i++) all[i] = static_cast<int32_t>(i);
  std::mt19937 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(count);
  return all;
}

}  // namespace layout_detail

inline Layout packed_tokens_first(const Geometry &g) {  // [2][layers][tokens + 3][heads][dim]
  using namespace layout_detail;
  Layout y;
  y.name = "packed tokens first";
  const uint64_t capacity = g.tokens + 3, k_bytes = g.layers * capacity * g.heads * g.k_dim * g.e,
                 v_bytes = g.layers * capacity * g.heads * g.v_dim * g.e;
  y.bytes = k_bytes + v_bytes;
  kvc_rows r = all_rows(g);
  r.v.data = offset(k_bytes);
  r.k.layer_stride = capacity * g.heads * g.k_dim * g.e;
  r.v.layer_stride = capacity * g.heads * g.v_dim * g.e;
  y.rows = {r};
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return is_k ? (((l * capacity + t) * g.heads + h) * g.k_dim + d) * g.e
                : k_bytes + (((l * capacity + t) * g.heads + h) * g.v_dim + d) * g.e;
  };
  return y;
}

inline Layout transformers(const Geometry &g) {  // per layer K [heads][tokens][dim], V the same
  using namespace layout_detail;
  Layout y;
  y.name = "transformers heads first";
  const uint64_t k_layer = g.heads * g.tokens * g.k_dim * g.e, v_layer = g.heads * g.tokens * g.v_dim * g.e;
  y.bytes = g.layers * (k_layer + v_layer);
  kvc_rows r = all_rows(g);
  r.v.data = offset(k_layer);
  r.k.layer_stride = r.v.layer_stride = k_layer + v_layer;
  r.k.head_stride = g.tokens * g.k_dim * g.e, r.k.token_stride = g.k_dim * g.e;
  r.v.head_stride = g.tokens * g.v_dim * g.e, r.v.token_stride = g.v_dim * g.e;
  y.rows = {r};
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return l * (k_layer + v_layer) + (is_k ? ((h * g.tokens + t) * g.k_dim + d) * g.e : k_layer + ((h * g.tokens + t) * g.v_dim + d) * g.e);
  };
  return y;
}

/// Pools of blocks have one width for K and V.
inline Layout vllm_nhd(const Geometry &g) {  // [layers] x [2][blocks][16][heads][dim]
  using namespace layout_detail;
  Layout y;
  y.name = "vLLM NHD pool";
  const uint64_t blocks = (g.tokens + 15) / 16 + 5, half = blocks * 16 * g.heads * g.k_dim * g.e;
  y.bytes = g.layers * 2 * half;
  y.table = scattered((g.tokens + 15) / 16, blocks, 1);
  kvc_rows r = all_rows(g);
  r.block_tokens = 16;
  r.v.data = offset(half);
  r.k.layer_stride = r.v.layer_stride = 2 * half;
  r.k.block_stride = r.v.block_stride = 16 * g.heads * g.k_dim * g.e;
  y.rows = {r};
  y.at = [=, table = y.table](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return ((((l * 2 + !is_k) * blocks + static_cast<uint64_t>(table[t / 16])) * 16 + t % 16) * g.heads + h) * g.k_dim * g.e + d * g.e;
  };
  return y;
}

inline Layout vllm_hnd(const Geometry &g) {  // [layers] x [blocks][2][heads][16][dim]
  using namespace layout_detail;
  Layout y;
  y.name = "vLLM HND pool";
  const uint64_t blocks = (g.tokens + 15) / 16 + 5, side = g.heads * 16 * g.k_dim * g.e;
  y.bytes = g.layers * blocks * 2 * side;
  y.table = scattered((g.tokens + 15) / 16, blocks, 2);
  kvc_rows r = all_rows(g);
  r.block_tokens = 16;
  r.v.data = offset(side);
  r.k.layer_stride = blocks * 2 * side, r.k.block_stride = 2 * side, r.k.head_stride = 16 * g.k_dim * g.e, r.k.token_stride = g.k_dim * g.e;
  void *const v_data = r.v.data;
  r.v = r.k;
  r.v.data = v_data;
  y.rows = {r};
  y.at = [=, table = y.table](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return ((((l * blocks + static_cast<uint64_t>(table[t / 16])) * 2 + !is_k) * g.heads + h) * 16 + t % 16) * g.k_dim * g.e + d * g.e;
  };
  return y;
}

inline Layout vllm_split_k(const Geometry &g,
                           uint64_t x = 8) {  // K [layers][blocks][heads][dim/x][16][x], V [layers][blocks][heads][dim][16]
  using namespace layout_detail;
  Layout y;
  y.name = "vLLM split K";
  const uint64_t blocks = (g.tokens + 15) / 16 + 2, groups = (g.k_dim + x - 1) / x,
                 k_bytes = g.layers * blocks * g.heads * groups * 16 * x * g.e;
  y.bytes = k_bytes + g.layers * blocks * g.heads * g.v_dim * 16 * g.e;
  y.table = scattered((g.tokens + 15) / 16, blocks, 3);
  kvc_rows r = all_rows(g);
  r.block_tokens = 16;
  r.k.dim_group = static_cast<uint32_t>(x), r.k.dim_stride = 16 * x * g.e, r.k.token_stride = x * g.e,
  r.k.head_stride = groups * 16 * x * g.e;
  r.k.block_stride = g.heads * r.k.head_stride, r.k.layer_stride = blocks * r.k.block_stride;
  r.v.data = offset(k_bytes);
  r.v.dim_stride = 16 * g.e, r.v.token_stride = g.e, r.v.head_stride = g.v_dim * 16 * g.e;
  r.v.block_stride = g.heads * r.v.head_stride, r.v.layer_stride = blocks * r.v.block_stride;
  y.rows = {r};
  y.at = [=, table = y.table](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    const uint64_t head = (l * blocks + static_cast<uint64_t>(table[t / 16])) * g.heads + h;
    return is_k ? (((head * groups + d / x) * 16 + t % 16) * x + d % x) * g.e : k_bytes + ((head * g.v_dim + d) * 16 + t % 16) * g.e;
  };
  return y;
}

inline Layout sglang(const Geometry &g, bool page_first) {  // [2][layers][slots][heads][dim] or [2][slots][layers][heads][dim]
  using namespace layout_detail;
  Layout y;
  y.name = page_first ? "SGLang page first" : "SGLang layer first";
  const uint64_t slots = g.tokens + 20, half = g.layers * slots * g.heads * g.k_dim * g.e, row = g.heads * g.k_dim * g.e;
  y.bytes = 2 * half;
  y.table = scattered(g.tokens, slots, 4);
  kvc_rows r = all_rows(g);
  r.block_tokens = 1;
  r.v.data = offset(half);
  r.k.block_stride = r.v.block_stride = page_first ? g.layers * row : row;
  r.k.layer_stride = r.v.layer_stride = page_first ? row : slots * row;
  y.rows = {r};
  y.at = [=, table = y.table](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    const auto slot = static_cast<uint64_t>(table[t]);
    const uint64_t place = page_first ? slot * g.layers + l : l * slots + slot;
    return (is_k ? 0 : half) + ((place * g.heads + h) * g.k_dim + d) * g.e;
  };
  return y;
}

inline Layout llama_flash(const Geometry &g) {  // K of all layers, then V of all: a 12-byte head, then [cells][heads * dim]
  using namespace layout_detail;
  Layout y;
  y.name = "llama.cpp state";
  const uint64_t k_layer = 12 + g.tokens * g.heads * g.k_dim * g.e, v_layer = 12 + g.tokens * g.heads * g.v_dim * g.e;
  y.bytes = g.layers * (k_layer + v_layer);
  kvc_rows r = all_rows(g);
  r.k.data = offset(12), r.v.data = offset(g.layers * k_layer + 12);
  r.k.layer_stride = k_layer, r.v.layer_stride = v_layer;
  y.rows = {r};
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return is_k ? l * k_layer + 12 + t * (g.heads * g.k_dim * g.e) + (h * g.k_dim + d) * g.e
                : g.layers * k_layer + l * v_layer + 12 + t * (g.heads * g.v_dim * g.e) + (h * g.v_dim + d) * g.e;
  };
  return y;
}

/// V [channel][cell].  `scatter`: cells out of order on both sides, as a unified cache leaves them.
inline Layout llama_transposed_v(const Geometry &g, bool scatter) {
  using namespace layout_detail;
  Layout y;
  y.name = scatter ? "llama.cpp scattered cells, V transposed" : "llama.cpp state, V transposed";
  const uint64_t cells = g.tokens + (scatter ? 9 : 0), k_layer = 12 + cells * g.heads * g.k_dim * g.e,
                 v_layer = 16 + cells * g.heads * g.v_dim * g.e;
  y.bytes = g.layers * (k_layer + v_layer);
  kvc_rows r = all_rows(g);
  r.k.data = offset(12), r.v.data = offset(g.layers * k_layer + 16);
  r.k.layer_stride = k_layer, r.v.layer_stride = v_layer;
  r.v.dim_stride = cells * g.e, r.v.head_stride = g.v_dim * cells * g.e;
  if (scatter) {
    y.table = scattered(g.tokens, cells, 5);
    r.block_tokens = 1;
    r.k.block_stride = g.heads * g.k_dim * g.e, r.v.block_stride = g.e;
  } else {
    r.v.token_stride = g.e;
  }
  y.rows = {r};
  y.at = [=, table = y.table](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    const uint64_t cell = scatter ? static_cast<uint64_t>(table[t]) : t;
    return is_k ? l * k_layer + 12 + ((cell * g.heads + h) * g.k_dim + d) * g.e
                : g.layers * k_layer + l * v_layer + 16 + ((h * g.v_dim + d) * cells + cell) * g.e;
  };
  return y;
}

inline Layout packed_kv_per_head(const Geometry &g) {  // [layers][tokens][heads][K | V]
  using namespace layout_detail;
  Layout y;
  y.name = "packed K|V per head";
  const uint64_t both = g.k_dim + g.v_dim;
  y.bytes = g.layers * g.tokens * g.heads * both * g.e;
  kvc_rows r = all_rows(g);
  r.v.data = offset(g.k_dim * g.e);
  for (kvc_array *a : {&r.k, &r.v})
    a->head_stride = both * g.e, a->token_stride = g.heads * both * g.e, a->layer_stride = g.tokens * g.heads * both * g.e;
  y.rows = {r};
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return (((l * g.tokens + t) * g.heads + h) * both + (is_k ? d : g.k_dim + d)) * g.e;
  };
  return y;
}

inline Layout packed_kv_per_row(const Geometry &g) {  // [layers][tokens][K of all heads | V of all heads]
  using namespace layout_detail;
  Layout y;
  y.name = "packed K|V per row";
  const uint64_t row = g.heads * (g.k_dim + g.v_dim) * g.e;
  y.bytes = g.layers * g.tokens * row;
  kvc_rows r = all_rows(g);
  r.v.data = offset(g.heads * g.k_dim * g.e);
  for (kvc_array *a : {&r.k, &r.v}) a->token_stride = row, a->layer_stride = g.tokens * row;
  y.rows = {r};
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    return (l * g.tokens + t) * row + (is_k ? h * g.k_dim + d : g.heads * g.k_dim + h * g.v_dim + d) * g.e;
  };
  return y;
}

inline Layout per_layer(const Geometry &g) {  // one run a layer, last layer first, with memory between that belongs to nobody
  using namespace layout_detail;
  Layout y;
  y.name = "per-layer pointers";
  const uint64_t k_bytes = g.tokens * g.heads * g.k_dim * g.e, v_bytes = g.tokens * g.heads * g.v_dim * g.e, step = k_bytes + v_bytes + 13;
  y.bytes = g.layers * step;
  for (uint32_t l = 0; l < g.layers; l++) {
    kvc_rows r = all_rows(g);
    r.layer_begin = l, r.layer_count = 1;
    const uint64_t begin = (g.layers - 1 - l) * step;
    r.k.data = offset(begin + 6), r.v.data = offset(begin + k_bytes + 9);
    y.rows.push_back(r);
  }
  y.at = [=](bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d) {
    const uint64_t begin = (g.layers - 1 - l) * step;
    return begin + (is_k ? 6 + (t * g.heads + h) * g.k_dim * g.e + d * g.e : k_bytes + 9 + (t * g.heads + h) * g.v_dim * g.e + d * g.e);
  };
  return y;
}

/// Layouts that hold K and V of any widths.
inline std::vector<Layout> layouts_any_width(const Geometry &g) {
  return {packed_tokens_first(g),      transformers(g),       vllm_split_k(g),      llama_flash(g), llama_transposed_v(g, false),
          llama_transposed_v(g, true), packed_kv_per_head(g), packed_kv_per_row(g), per_layer(g)};
}

inline std::vector<Layout> layouts(const Geometry &g) {
  std::vector<Layout> all = layouts_any_width(g);
  for (Layout &y : std::vector<Layout>{vllm_nhd(g), vllm_hnd(g), sglang(g, false), sglang(g, true)}) all.push_back(std::move(y));
  return all;
}

/// Writes or expects the stamps of `writer` in memory of this layout: layers [0, g.layers), tokens [begin, end).
inline void fill(uint8_t *memory, const Layout &y, const Geometry &g, uint64_t writer, uint64_t begin, uint64_t end) {
  for (const bool is_k : {true, false})
    for (uint64_t l = 0; l < g.layers; l++)
      for (uint64_t t = begin; t < end; t++)
        for (uint64_t h = 0; h < g.heads; h++)
          for (uint64_t d = 0; d < (is_k ? g.k_dim : g.v_dim); d++) {
            const uint64_t bits = stamp(writer, is_k, l, t, h, d);
            std::memcpy(memory + y.at(is_k, l, t, h, d), &bits, g.e);
          }
}

/// Where two memories differ first; empty when they do not.
inline std::string difference(const std::vector<uint8_t> &got, const std::vector<uint8_t> &want) {
  if (got.size() != want.size()) return "sizes differ";
  for (size_t i = 0; i < got.size(); i++)
    if (got[i] != want[i])
      return "byte " + std::to_string(i) + " of " + std::to_string(got.size()) + " is " + std::to_string(got[i]) + ", not " +
             std::to_string(want[i]);
  return "";
}

}  // namespace kvc_test
