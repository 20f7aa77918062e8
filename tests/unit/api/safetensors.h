#pragma once
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvc_test {

/// A safetensors file, as far as the dumps of tests/data need it: u64 size, a JSON header, the numbers.
class Safetensors {
 public:
  struct Tensor {
    std::vector<uint64_t> shape;
    const char *data = nullptr;
    uint64_t bytes = 0;
  };

  explicit Safetensors(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t size = 0;
    if (file_.size() < 8) return;
    std::memcpy(&size, file_.data(), 8);
    if (size > file_.size() - 8) return;
    header_ = file_.substr(8, size);
  }
  bool ok() const { return !header_.empty(); }

  Tensor tensor(const std::string &name) const {
    Tensor out;
    const size_t at = header_.find("\"" + name + "\":{");
    if (at == std::string::npos) return out;
    out.shape = numbers("\"shape\":[", at);
    const std::vector<uint64_t> offsets = numbers("\"data_offsets\":[", at);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file_.size() - 8 - header_.size()) return {};
    out.data = file_.data() + 8 + header_.size() + offsets[0];
    out.bytes = offsets[1] - offsets[0];
    return out;
  }

 private:
  std::vector<uint64_t> numbers(const char *key, size_t from) const {
    std::vector<uint64_t> out;
    size_t at = header_.find(key, from);
    if (at == std::string::npos) return out;
    for (at += std::strlen(key); header_[at] != ']'; at += header_[at] == ',') {
      size_t used = 0;
      out.push_back(std::stoull(header_.substr(at, 24), &used));
      at += used;
      while (header_[at] == ' ') at++;
    }
    return out;
  }

  std::string file_, header_;
};

}  // namespace kvc_test
