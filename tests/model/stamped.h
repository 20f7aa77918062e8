#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kvc/kvc.h"

/// Rows that say who wrote them: every element is made of its row's stamp, its layer, its head, its side and its dim, so that a foreign or a
/// stale element cannot pass for the right one.
namespace kvc::model {

using Random = std::mt19937_64;

inline uint64_t mix(uint64_t a, uint64_t b = 0) {
  uint64_t x = a * 0x9E3779B97F4A7C15ull ^ (b + 0xD1B54A32D192ED03ull) * 0x8CB92BA72F3D8DD7ull;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
  return x ^ x >> 32;
}

struct Layer {
  uint32_t run, heads, dim[2], dtype[2];  // [0]: K, [1]: V
};

/// A shape with its layers spelled out.
struct Geometry {
  Geometry(uint32_t tokens, uint32_t type, std::vector<kvc_layer> layer_runs);
  kvc_shape shape() const;

  uint32_t chunk_tokens, dtype;
  std::vector<kvc_layer> runs;
  std::vector<Layer> layers;
};

/// Runs of layers whose K and V differ in width, grouped heads, all dtypes and the chunk sizes 16, 32 and 64; the last one's sides are no multiples of 64 bytes.
const std::vector<Geometry> &geometries();

/// Of one row: what a (sequence content, layer, token) must read.
uint64_t stamp_of(uint64_t writer, uint32_t layer, uint64_t token);

/// The stamp of layer `layer` (of the model) in the i-th row asked for.
using Stamps = std::function<uint64_t(uint32_t layer, uint64_t row)>;

/// Memory of a caller for some layers x heads x rows, in one of several layouts, poisoned.
class Block {
 public:
  struct Part {
    uint32_t layer_begin, layer_count, head_begin, head_count;
    bool side[2] = {true, true};
  };
  Block(const Geometry &geometry, const Part &part, uint64_t rows, Random &random);

  /// Layers, heads and where the elements lie; the tokens are the caller's to fill in.
  kvc_rows rows();
  void fill(const Stamps &stamps);
  uint64_t row_count() const { return row_count_; }
  /// Empty: the first `right` rows are as `stamps` says and no byte that is no element was touched (of rows behind them: at all).
  std::string mismatch(const Stamps &stamps, uint64_t right) const;

 private:
  struct Array {
    uint64_t layer_stride, block_stride, token_stride, head_stride;
    std::vector<uint8_t> bytes;
  };
  uint64_t offset(const Array &array, uint32_t element, uint32_t l, uint64_t row, uint32_t h, uint32_t d) const;
  void write(std::vector<uint8_t> &bytes, int side, const Stamps &stamps, uint64_t begin, uint64_t end) const;

  const Geometry &geometry_;
  Part part_;
  uint64_t row_count_, slot_begin_;
  uint32_t block_tokens_;
  std::vector<int32_t> blocks_;
  Array arrays_[2];
};

}  // namespace kvc::model
