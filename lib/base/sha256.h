#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvc::base {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 by libcrypto, one reusable context: no allocation after construction.  One thread at a time.
/// Construction costs about 70 ns and throws std::bad_alloc when libcrypto gives no context or has no SHA-256 (a host that loaded no
/// provider with one), so hot paths keep an object and reuse it.  Fault point "base.sha256.context".
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;
  /// Starts a digest; whatever was being hashed is forgotten.
  void begin();
  void update(const void *data, size_t size);
  Digest finish();
  /// begin, update, finish in one: the fast path.
  Digest digest(const void *data, size_t size);

 private:
  void *context_;  // EVP_MD_CTX, so that no header of ours pulls in OpenSSL's
};

}  // namespace kvc::base
