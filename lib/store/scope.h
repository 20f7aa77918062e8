#pragma once
#include <atomic>
#include <memory_resource>

#include "seq/identity.h"
#include "seq/index.h"
#include "store/key_order.h"
#include "store/layout.h"

namespace kvc::store {

/// Whose cache, of which shape.  Shared by every handle and sequence with the same names; lives while any of them, or anything stored, does.
struct Scope {
  explicit Scope(std::pmr::memory_resource *resource) : layout(resource), key_order(resource) {}

  seq::Name name{};
  seq::Shape shape;  // layer_count 0: objects only
  ChunkLayout layout;
  uint32_t id = 0;
  uint32_t users = 0;  // handles and sequences; under the store's lock, as is all that follows but the atomic counts
  uint64_t chunk_count = 0, object_count = 0, seq_count = 0, bytes_host = 0;
  double byte_seconds_host = 0;
  uint64_t bytes_since_ns = 0;
  KeyOrder key_order;
  std::atomic<uint64_t> hit_tokens{0}, miss_tokens{0}, tokens_written{0}, tokens_read{0};

  bool has_shape() const { return shape.layer_count != 0; }
  bool empty() const { return users == 0 && chunk_count == 0 && object_count == 0; }
  /// Accounting: call before bytes_host changes and before it is reported.
  void settle(uint64_t now_ns) {
    byte_seconds_host += static_cast<double>(bytes_host) * static_cast<double>(now_ns - bytes_since_ns) * 1e-9;
    bytes_since_ns = now_ns;
  }
};

/// kvc_shape_check: checks a shape and says what it takes.
[[nodiscard]] kvc_status shape_info(kvc_shape_info &out, const kvc_shape &shape, base::Error &error);

}  // namespace kvc::store
