#pragma once
#include <cstring>
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

struct ScopeIdentity {
  std::string_view tenant, model, revision, adapter, salt;
};
Name scope_name(const ScopeIdentity &identity, const Name &shape_fingerprint);
Name first_chunk_parent(const Name &scope, uint64_t first_position);  // "chunk_0" of format.md: what the first chunk chains on
Name object_name(const Name &scope, std::string_view key);

/// An extra with bytes of its own: 1..64.
struct Extra {
  uint64_t token_begin = 0, token_count = 0;
  uint8_t data_size = 0;
  uint8_t data[64] = {};
};
/// Extras of one sequence, rising, not overlapping.  ARGUMENT: empty, over 64 bytes, zero tokens, overflow of the range; RANGE/ARGUMENT for out of order or overlapping ones: messages name index and value.
class Extras {
 public:
  explicit Extras(std::pmr::memory_resource *resource) : list_(resource) {}
  [[nodiscard]] kvc_status add(const kvc_extra *extras, size_t extra_count, base::Error &error);  // all or nothing
  std::span<const Extra> all() const { return list_; }
  bool empty() const { return list_.empty(); }
  /// Drops what begins at or after `tokens`, clips what reaches over it.
  void truncate(uint64_t tokens);

 private:
  std::pmr::vector<Extra> list_;
};

/// Chains chunk names; one reusable hash context and buffer, so the hot loop allocates nothing.  One thread at a time.
class ChunkNamer {
 public:
  /// Name of the chunk of `tokens` (token_count of them) that starts at position `chunk_begin` of the sequence (token index, not first_position).
  Name next(const Name &parent, const int32_t *tokens, uint32_t token_count, uint64_t chunk_begin, std::span<const Extra> extras);

 private:
  base::Sha256 hash_;
  std::vector<uint8_t> buffer_;
};

}  // namespace kvc::seq
