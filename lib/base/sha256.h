#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvc::base {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 by libcrypto, one reusable context: no allocation after construction.  One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;
  void begin();
  void update(const void *data, size_t size);
  Digest finish();
  /// begin, update, finish in one: the fast path.
  Digest digest(const void *data, size_t size);

 private:
  void *context_;
};

}  // namespace kvc::base
