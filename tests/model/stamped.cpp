#include "stamped.h"

#include <algorithm>
#include <cstring>

namespace kvc::model {
namespace {

constexpr uint8_t kPoison = 0xA5;

uint32_t bytes_of(uint32_t dtype) { return dtype == KVC_F32 ? 4 : dtype == KVC_F16 || dtype == KVC_BF16 ? 2 : 1; }

kvc_layer layers(uint32_t count, uint32_t heads, uint32_t k_dim, uint32_t v_dim, uint32_t k_dtype = 0, uint32_t v_dtype = 0) {
  return {count, KVC_LAYER_FULL, heads, k_dim, v_dim, 0, 0, k_dtype, v_dtype, {0, 0, 0}};
}

}  // namespace

Geometry::Geometry(uint32_t tokens, uint32_t type, std::vector<kvc_layer> layer_runs) : chunk_tokens(tokens), dtype(type), runs(std::move(layer_runs)) {
  for (uint32_t r = 0; r < runs.size(); r++)
    for (uint32_t i = 0; i < runs[r].count; i++) {
      const kvc_layer &run = runs[r];
      layers.push_back({r, run.kv_heads, {run.k_dim, run.v_dim}, {run.k_dtype ? run.k_dtype : dtype, run.v_dtype ? run.v_dtype : dtype}});
    }
}

kvc_shape Geometry::shape() const {
  kvc_shape shape;
  KVC_INIT(&shape);
  shape.dtype = dtype;
  shape.chunk_tokens = chunk_tokens;
  shape.layers = runs.data();
  shape.layer_runs = runs.size();
  return shape;
}

const std::vector<Geometry> &geometries() {
  static const std::vector<Geometry> all = {
      {16, KVC_F16, {layers(2, 4, 24, 16), layers(1, 2, 8, 40, KVC_F32, KVC_BF16)}},
      {64, KVC_BF16, {layers(3, 1, 32, 32)}},
      {32, KVC_F8_E4M3, {layers(1, 2, 16, 24), layers(1, 3, 16, 8, KVC_F16, 0)}},
      {16, KVC_F16, {layers(1, 1, 5, 3), layers(1, 3, 3, 1, KVC_F8_E4M3, KVC_F32)}},
  };
  return all;
}

uint64_t stamp_of(uint64_t writer, uint32_t layer, uint64_t token) { return mix(writer, mix(layer, token)) | 1; }

Block::Block(const Geometry &geometry, const Part &part, uint64_t rows, Random &random)
    : geometry_(geometry), part_(part), row_count_(rows), slot_begin_(random() % 5), block_tokens_(0) {
  const uint64_t slots = slot_begin_ + row_count_;
  const uint64_t layout = random() % 3, pad = random() % 2 * 12;
  uint64_t block_count = 1, per_block = slots;
  if (layout == 2) {
    block_tokens_ = random() % 2 ? 16 : 1;
    per_block = block_tokens_;
    blocks_.resize((slots + block_tokens_ - 1) / block_tokens_);
    block_count = blocks_.size() * 2;
    std::vector<int32_t> order(block_count);
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int32_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    std::copy_n(order.begin(), blocks_.size(), blocks_.begin());
  }
  for (int side = 0; side < 2; side++) {
    const Layer &layer = geometry.layers[part.layer_begin];
    const uint64_t head = uint64_t{layer.dim[side]} * bytes_of(layer.dtype[side]);
    Array &a = arrays_[side];
    if (layout == 1) {  // heads first
      a.token_stride = head + pad;
      a.head_stride = a.token_stride * per_block;
      a.block_stride = a.head_stride * part.head_count;
    } else {
      a.head_stride = head;
      a.token_stride = head * part.head_count + pad;
      a.block_stride = a.token_stride * per_block;
    }
    a.layer_stride = a.block_stride * block_count + pad;
    a.bytes.assign(a.layer_stride * part.layer_count + pad, kPoison);
  }
}

kvc_rows Block::rows() {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_begin = part_.layer_begin;
  rows.layer_count = part_.layer_count;
  rows.head_begin = part_.head_begin;
  rows.head_count = part_.head_count;
  rows.slot_begin = slot_begin_;
  rows.block_tokens = block_tokens_;
  rows.blocks = blocks_.empty() ? nullptr : blocks_.data();
  rows.block_count = blocks_.size();
  for (int side = 0; side < 2; side++) {
    if (!part_.side[side]) continue;
    kvc_array &array = side ? rows.v : rows.k;
    Array &a = arrays_[side];
    array.data = a.bytes.data();
    array.bytes = a.bytes.size();
    array.layer_stride = a.layer_stride;
    array.block_stride = block_tokens_ ? a.block_stride : 0;
    array.token_stride = a.token_stride;
    array.head_stride = a.head_stride;
  }
  return rows;
}

uint64_t Block::offset(const Array &a, uint32_t element, uint32_t l, uint64_t row, uint32_t h, uint32_t d) const {
  const uint64_t slot = slot_begin_ + row;
  const uint64_t block = block_tokens_ ? static_cast<uint64_t>(blocks_[slot / block_tokens_]) : 0, in_block = block_tokens_ ? slot % block_tokens_ : slot;
  return l * a.layer_stride + block * a.block_stride + in_block * a.token_stride + h * a.head_stride + uint64_t{d} * element;
}

void Block::write(std::vector<uint8_t> &bytes, int side, const Stamps &stamps, uint64_t begin, uint64_t end) const {
  const Array &a = arrays_[side];
  for (uint32_t l = 0; l < part_.layer_count; l++) {
    const uint32_t number = part_.layer_begin + l, dim = geometry_.layers[number].dim[side], element = bytes_of(geometry_.layers[number].dtype[side]);
    for (uint64_t row = begin; row < end; row++) {
      const uint64_t stamp = stamps ? stamps(number, row) : 0;
      for (uint32_t h = 0; h < part_.head_count; h++) {
        const uint64_t seed = mix(stamp, (uint64_t{number} << 32 | (part_.head_begin + h)) * 2 + static_cast<uint64_t>(side));
        for (uint32_t d = 0; d < dim; d++) {
          uint8_t *at = bytes.data() + offset(a, element, l, row, h, d);
          if (!stamps) {  // as it is
            std::memcpy(at, a.bytes.data() + (at - bytes.data()), element);
          } else {
            const uint64_t bits = (seed + d * 0x9E3779B97F4A7C15ull) >> 24;
            std::memcpy(at, &bits, element);
          }
        }
      }
    }
  }
}

void Block::fill(const Stamps &stamps) {
  for (int side = 0; side < 2; side++)
    if (part_.side[side]) write(arrays_[side].bytes, side, stamps, 0, row_count_);
}

std::string Block::mismatch(const Stamps &stamps, uint64_t right) const {
  for (int side = 0; side < 2; side++) {
    const Array &a = arrays_[side];
    std::vector<uint8_t> expected(a.bytes.size(), kPoison);
    if (part_.side[side]) {
      write(expected, side, stamps, 0, right);
      write(expected, side, nullptr, right, row_count_);
    }
    if (expected == a.bytes) continue;
    const auto wrong = std::mismatch(expected.begin(), expected.end(), a.bytes.begin()).first - expected.begin();
    const uint32_t element = bytes_of(geometry_.layers[part_.layer_begin].dtype[side]);
    for (uint32_t l = 0; l < part_.layer_count; l++)
      for (uint64_t row = 0; row < row_count_; row++)
        for (uint32_t h = 0; h < part_.head_count; h++) {
          const uint64_t at = offset(a, element, l, row, h, 0), dim = geometry_.layers[part_.layer_begin + l].dim[side];
          if (static_cast<uint64_t>(wrong) >= at && static_cast<uint64_t>(wrong) < at + dim * element)
            return std::string(side ? "V" : "K") + " of layer " + std::to_string(part_.layer_begin + l) + ", row " + std::to_string(row) + " of " +
                   std::to_string(row_count_) + ", head " + std::to_string(part_.head_begin + h) + ", byte " + std::to_string(static_cast<uint64_t>(wrong) - at);
        }
    return std::string(side ? "V" : "K") + ": byte " + std::to_string(wrong) + ", which is no element, was touched";
  }
  return {};
}

}  // namespace kvc::model
