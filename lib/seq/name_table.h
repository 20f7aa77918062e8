#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <vector>

#include "base/check.h"
#include "seq/identity.h"

namespace kvc::seq {

/// Names are digests or keys of a caller's choice, folded to 64 bits.  The secret is a store's own: who chooses keys cannot choose where they meet.
struct NameHash {
  std::array<uint64_t, 4> secret{};

  uint64_t operator()(const Name &name) const {
    uint64_t w[4];
    std::memcpy(w, name.data(), sizeof w);
    return fold(fold(w[0] ^ secret[0], w[1] ^ secret[1]) ^ secret[2], fold(w[2] ^ secret[3], w[3] ^ secret[0]) ^ secret[1]);
  }

 private:
  static uint64_t fold(uint64_t a, uint64_t b) {
    __extension__ using uint128 = unsigned __int128;
    const auto p = static_cast<uint128>(a) * b;
    return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  }
};

/// From a name's hash to what a lookup needs: open addressing, linear, at most 3/4 full.  `Bucket` has id (0: empty) and tag, the hash's upper half;
/// the names themselves are the caller's, who tells equal ones apart.
template <typename Bucket>
class NameTable {
 public:
  explicit NameTable(std::pmr::memory_resource *resource) : buckets_(1024, resource) { publish(); }

  /// Room for `count` names, so that no insert fails; `hash_of(id)` names again what is there.  Throws std::bad_alloc, nothing changed.
  template <typename HashOf>
  void reserve(uint64_t count, HashOf &&hash_of) {
    size_t size = buckets_.size();
    while (count * 4 > size * 3) size *= 2;
    if (size == buckets_.size()) return;
    std::pmr::vector<Bucket> before(size, buckets_.get_allocator());
    buckets_.swap(before);
    publish();
    for (const Bucket &bucket : before)
      if (bucket.id) insert(hash_of(bucket.id), bucket);
  }

  /// The first bucket of this hash that is `right(bucket)`, or null.
  template <typename Right>
  const Bucket *find(uint64_t hash, Right &&right) const {
    for (size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Bucket &bucket = buckets_[i];
      if (bucket.id == 0) return nullptr;
      if (bucket.tag == tag_of(hash) && right(bucket)) return &bucket;
    }
  }

  void insert(uint64_t hash, Bucket bucket) {
    size_t i = hash & mask();
    while (buckets_[i].id) i = (i + 1) & mask();
    bucket.tag = tag_of(hash);
    buckets_[i] = bucket;
  }

  /// Later ones of the same run move up: no tombstones.
  template <typename HashOf>
  void erase(uint32_t id, HashOf &&hash_of) {
    const Bucket *found = find(hash_of(id), [id](const Bucket &bucket) { return bucket.id == id; });
    KVC_CHECK(found);
    auto hole = static_cast<size_t>(found - buckets_.data());
    for (size_t i = (hole + 1) & mask(); buckets_[i].id; i = (i + 1) & mask()) {
      const size_t home = hash_of(buckets_[i].id) & mask();
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      buckets_[hole] = buckets_[i];
      hole = i;
    }
    buckets_[hole] = {};
  }

  /// Needs no lock: what it asks for may be no longer, or not yet, where it looks.
  [[gnu::always_inline]] void prefetch(uint64_t hash) const {
    const Bucket *begin = begin_.load(std::memory_order_relaxed);
    __builtin_prefetch(reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(begin) + (hash & mask_.load(std::memory_order_relaxed)) * sizeof(Bucket)));
  }

 private:
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  size_t mask() const { return buckets_.size() - 1; }
  void publish() {
    begin_.store(buckets_.data(), std::memory_order_relaxed);
    mask_.store(mask(), std::memory_order_relaxed);
  }

  std::pmr::vector<Bucket> buckets_;
  std::atomic<const Bucket *> begin_;
  std::atomic<size_t> mask_;
};

}  // namespace kvc::seq
