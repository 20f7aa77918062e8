#pragma once
#include <atomic>
#include <list>
#include <memory_resource>
#include <utility>

#include "seq/identity.h"
#include "seq/index.h"
#include "store/key_order.h"
#include "store/part.h"

namespace kvc::store {

/// Whose cache, of which shape.  Shared by every handle and sequence with the same names; lives while any of them, or anything stored, does.
struct Scope : Part {
  explicit Scope(std::pmr::memory_resource *resource) : Part(resource), parts(resource), splits(resource), key_order(resource) {}

  seq::Name name{};
  std::pmr::list<Part> parts, splits;  // that sequences or slots were made of; each stays as long as the scope.  Under the store's lock
  uint32_t id = 0;
  uint32_t users = 0;  // handles, sequences, views of open chunks; under the store's lock, as is all that follows but the atomic counts
  uint64_t chunk_count = 0, piece_count = 0, object_count = 0, seq_count = 0, bytes_host = 0;
  double byte_seconds_host = 0;
  uint64_t bytes_since_ns = 0;
  KeyOrder key_order;
  std::atomic<uint64_t> bytes_max{0};      // the quota; 0: none
  std::atomic<bool> ages{false};           // it, or something in it, has a time to live
  bool own_ttls = false;                   // something in it has one of its own
  uint64_t ttl_ns = 0;                     // 0: none
  std::atomic<uint64_t> bytes_counted{0};  // against it, beside bytes_host: of slots that are open or being filled
  std::atomic<uint64_t> hit_tokens{0}, miss_tokens{0}, tokens_written{0}, tokens_read{0};

  bool has_shape() const { return shape.layer_count != 0; }
  bool exceeds_quota(uint64_t bytes) const {
    const uint64_t max = bytes_max.load(std::memory_order_relaxed);
    return max && quota_used() + bytes > max;
  }
  uint64_t quota_used() const { return bytes_host + bytes_counted.load(std::memory_order_relaxed); }
  bool empty() const { return users == 0 && chunk_count == 0 && piece_count == 0 && object_count == 0; }
  /// Accounting: call before bytes_host changes and before it is reported.
  void settle(uint64_t now_ns) {
    if (now_ns <= bytes_since_ns) return;  // a clock that went back: no time is counted twice
    byte_seconds_host += static_cast<double>(bytes_host) * static_cast<double>(now_ns - bytes_since_ns) * 1e-9;
    bytes_since_ns = now_ns;
  }
};

/// Bytes of an open slot that count against the quota of its scope, until it is sealed, put, or given back.
class QuotaHold {
 public:
  QuotaHold() = default;
  QuotaHold(Scope &scope, uint64_t bytes) : scope_(&scope), bytes_(bytes) { scope.bytes_counted.fetch_add(bytes, std::memory_order_relaxed); }
  QuotaHold(QuotaHold &&from) noexcept : scope_(std::exchange(from.scope_, nullptr)), bytes_(from.bytes_) {}
  QuotaHold &operator=(QuotaHold &&from) noexcept {
    std::swap(scope_, from.scope_);
    std::swap(bytes_, from.bytes_);
    return *this;
  }
  ~QuotaHold() { end(); }
  /// The caller counts it down.
  uint64_t release() {
    scope_ = nullptr;
    return std::exchange(bytes_, 0);
  }
  void end() {
    if (scope_) std::exchange(scope_, nullptr)->bytes_counted.fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  Scope *scope_ = nullptr;
  uint64_t bytes_ = 0;
};

/// The first position that a query behind `length` tokens sees through a window, its own included.
constexpr uint64_t window_begin(uint64_t length, uint64_t window) { return length + 1 > window ? length + 1 - window : 0; }

/// kvc_shape_check: checks a shape and says what it takes.
[[nodiscard]] kvc_status shape_info(kvc_shape_info &out, const kvc_shape &shape, base::Error &error);

}  // namespace kvc::store
