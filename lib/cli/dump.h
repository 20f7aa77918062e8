#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// K and V of one prompt, as a model computed them.
namespace kvc::cli {

struct Dump {
  uint32_t layers = 0, heads = 0, dim = 0;
  uint64_t tokens = 0;
  std::vector<uint8_t> k, v;  // f16, [layer][head][token][dim]
  std::vector<int32_t> ids;

  uint64_t row_bytes() const { return uint64_t{dim} * 2; }
  uint64_t side_bytes() const { return uint64_t{layers} * heads * tokens * row_bytes(); }
  uint64_t offset(uint32_t layer, uint64_t token, uint32_t head) const { return ((uint64_t{layer} * heads + head) * tokens + token) * row_bytes(); }
};

/// Numbers of no model: every bit pattern, NaNs too.
Dump generated_dump();
/// A safetensors file with `k` and `v` [layers, KV heads, tokens, dim] of float16 and `token_ids` [tokens] of int32.  Throws what is wrong with it.
Dump read_dump(const std::string &path);

}  // namespace kvc::cli
