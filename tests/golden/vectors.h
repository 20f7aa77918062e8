#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reader of the golden vectors: records of `key value` lines, closed by an empty line (make_golden.py says more).
namespace golden {

using Bytes = std::vector<uint8_t>;

inline Bytes unhex(std::string_view text) {
  Bytes bytes;
  if (text == "-") return bytes;
  EXPECT_EQ(text.size() % 2, 0u) << text;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline std::string hex(const uint8_t *data, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[data[i] >> 4];
    text += "0123456789abcdef"[data[i] & 15];
  }
  return text;
}
template <class T>
std::string hex(const T &bytes) {
  return hex(bytes.data(), bytes.size());
}

struct Record {
  std::vector<std::pair<std::string, std::string>> lines;

  std::vector<std::string> list(std::string_view key) const {
    std::vector<std::string> values;
    for (const auto &[k, v] : lines) {
      if (k == key) values.push_back(v);
    }
    return values;
  }
  std::string text(std::string_view key) const {
    const std::vector<std::string> values = list(key);
    EXPECT_EQ(values.size(), 1u) << "one line of " << key;
    return values.empty() ? std::string() : values[0];
  }
  uint64_t number(std::string_view key) const { return std::stoull(text(key)); }
  Bytes bytes(std::string_view key) const { return unhex(text(key)); }
  template <size_t N>
  std::array<uint8_t, N> array(std::string_view key) const {
    const Bytes held = bytes(key);
    std::array<uint8_t, N> fixed{};
    EXPECT_EQ(held.size(), N) << key;
    for (size_t i = 0; i < N && i < held.size(); ++i) fixed[i] = held[i];
    return fixed;
  }
};

/// All records of tests/golden/`name`; never empty, so that a loop over them cannot pass by finding nothing.
inline std::vector<Record> read(const std::string &name) {
  std::ifstream file(std::string(KVC_TEST_GOLDEN) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<Record> records;
  Record record;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] == '#') continue;
    if (!line.empty()) {
      const size_t space = line.find(' ');
      record.lines.emplace_back(line.substr(0, space), line.substr(space + 1));
    } else if (!record.lines.empty()) {
      records.push_back(std::move(record));
      record = {};
    }
  }
  EXPECT_FALSE(records.empty()) << name;
  return records;
}

}  // namespace golden
