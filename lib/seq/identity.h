#pragma once
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "kvc/seq.h"

/// Names: who a page or an object is, equal in every process, language and machine (format.md, "Names").
namespace kvc::seq {

using Name = base::Digest;  // 32 bytes

/// An absent field is an empty one.
struct ScopeIdentity {
  std::string_view tenant, model, revision, adapter, salt;
};
/// `shape_fingerprint`: Shape::fingerprint, or 32 zero bytes for a scope of objects only.
Name scope_name(const ScopeIdentity &identity, const Name &shape_fingerprint);
/// "chunk_0" of format.md: what the first chunk chains on.
Name first_chunk_parent(const Name &scope, uint64_t first_position);
constexpr size_t object_key_max = 64;
/// `key` is at most 64 bytes: the caller has checked.  The context is the caller's: no allocation, for paths that name objects in a loop.
Name object_name(base::Sha256 &hash, const Name &scope, std::string_view key);

constexpr size_t extra_data_max = 64;

/// An extra with bytes of its own: 1..64.
struct Extra {
  uint64_t token_begin = 0, token_count = 0;
  uint8_t data_size = 0;
  uint8_t data[extra_data_max] = {};
};

/// Extras of one sequence, rising, not overlapping.
class Extras {
 public:
  explicit Extras(std::pmr::memory_resource *resource) : list_(resource) {}
  /// Adds a rising list; its entries may fall before, between or after those already held (kvc_seq_identify names an image in front of one
  /// that was known at the start).  All or nothing.  ARGUMENT, naming index and value: NULL or empty or over 64 bytes, no tokens, a range
  /// over 2^64 - 1, out of order, overlapping.  Throws std::bad_alloc, having changed nothing.
  /// Those held that begin at or after `replace_from` give way, whether or not they overlap.
  [[nodiscard]] kvc_status add(const kvc_extra *extras, size_t extra_count, base::Error &error, uint64_t replace_from = UINT64_MAX);
  std::span<const Extra> all() const { return list_; }
  bool empty() const { return list_.empty(); }

 private:
  std::pmr::vector<Extra> list_;
};

/// Chains chunk names; one reusable hash context, so the hot loop allocates nothing.  One thread at a time.
class ChunkNamer {
 public:
  /// Name of the chunk of `tokens` (token_count of them, 1..256) that starts at position `chunk_begin` of the sequence (token index, not
  /// first_position).  `extras` are all of the sequence (Extras::all()): those that touch the chunk are found and clipped here.
  Name next(const Name &parent, const int32_t *tokens, uint32_t token_count, uint64_t chunk_begin, std::span<const Extra> extras);

 private:
  base::Sha256 hash_;
};

}  // namespace kvc::seq
