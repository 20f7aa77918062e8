#include "cli/dump.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "cli/bench_tools.h"

namespace kvc::cli {
namespace {

/// One tensor of the JSON header, by its key; the header is a flat list of them and nothing in it is trusted.
class Header {
 public:
  Header(const std::string &path, const std::string &file) : path_(path), file_(file) {
    uint64_t size = 0;
    if (file.size() >= 8) std::memcpy(&size, file.data(), 8);
    if (file.size() < 8 || size > file.size() - 8) throw std::runtime_error(path + ": no safetensors file");
    text_ = file.substr(8, size);
  }
  std::vector<uint64_t> shape(const char *name) const { return numbers(name, "\"shape\":["); }
  std::vector<uint8_t> bytes(const char *name, const char *dtype, uint64_t wanted) const {
    const std::vector<uint64_t> offsets = numbers(name, "\"data_offsets\":[");
    const uint64_t begin = 8 + text_.size(), left = file_.size() - begin;
    if (entry(name).find(std::string("\"dtype\":\"") + dtype + "\"") == std::string::npos) wrong(name, std::string("its dtype is not ") + dtype);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > left || offsets[1] - offsets[0] != wanted) wrong(name, "its bytes are not those of its shape");
    return {file_.begin() + static_cast<int64_t>(begin + offsets[0]), file_.begin() + static_cast<int64_t>(begin + offsets[1])};
  }
  [[noreturn]] void wrong(const char *name, const std::string &why) const { throw std::runtime_error(path_ + ": tensor " + name + ": " + why); }

 private:
  std::string entry(const char *name) const {
    const size_t at = text_.find(std::string("\"") + name + "\":{"), end = at == std::string::npos ? at : text_.find('}', at);
    if (end == std::string::npos) wrong(name, "there is none");
    return text_.substr(at, end - at);
  }
  std::vector<uint64_t> numbers(const char *name, const char *key) const {
    const std::string text = entry(name);
    std::vector<uint64_t> out;
    size_t at = text.find(key);
    if (at == std::string::npos) wrong(name, "no shape or offsets");
    for (at += std::strlen(key); at < text.size() && text[at] != ']';) {
      if (text[at] < '0' || text[at] > '9') {
        at++;
        continue;
      }
      uint64_t value = 0;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; at++) value = value > (1ull << 56) ? value : value * 10 + static_cast<uint64_t>(text[at] - '0');
      out.push_back(value);
    }
    return out;
  }

  const std::string path_, &file_;
  std::string text_;
};

}  // namespace

Dump generated_dump() {
  Dump dump;
  dump.layers = 6, dump.heads = 3, dump.dim = 64, dump.tokens = 500;
  Noise noise{11};
  for (std::vector<uint8_t> *side : {&dump.k, &dump.v}) {
    side->resize(dump.side_bytes());
    for (uint64_t at = 0; at < side->size(); at += 8) {
      const uint64_t bits = noise.next();
      std::memcpy(side->data() + at, &bits, 8);
    }
  }
  for (uint64_t t = 0; t < dump.tokens; t++) dump.ids.push_back(static_cast<int32_t>(noise.next() >> 40));
  return dump;
}

Dump read_dump(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const Header header(path, file);
  const std::vector<uint64_t> shape = header.shape("k");
  if (shape.size() != 4) header.wrong("k", "it is not [layers, KV heads, tokens, dim]");
  for (const uint64_t n : shape)
    if (n == 0 || n > 1u << 20) header.wrong("k", "a dimension is 0 or over 1,048,576");
  if (header.shape("v") != shape) header.wrong("v", "its shape is not that of k");
  if (shape[0] * shape[1] * shape[2] > file.size()) header.wrong("k", "its bytes are not those of its shape");
  Dump dump;
  dump.layers = static_cast<uint32_t>(shape[0]), dump.heads = static_cast<uint32_t>(shape[1]), dump.tokens = shape[2], dump.dim = static_cast<uint32_t>(shape[3]);
  dump.k = header.bytes("k", "F16", dump.side_bytes());
  dump.v = header.bytes("v", "F16", dump.side_bytes());
  const std::vector<uint8_t> ids = header.bytes("token_ids", "I32", dump.tokens * 4);
  dump.ids.resize(dump.tokens);
  std::memcpy(dump.ids.data(), ids.data(), ids.size());
  return dump;
}

}  // namespace kvc::cli
