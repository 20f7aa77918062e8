#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "kernels/rows.h"
#include "kvc/object.h"

namespace kvc::store {

constexpr uint64_t object_key_max = 64, object_piece_bytes = 1u << 20;
/// From here on what a group of gets copies passes the cache by: an engine's arena is larger than any cache, and regular stores would read every line
/// first.
constexpr uint64_t object_stream_bytes_min = 64u << 10;

/// In front of an object's value in its slot; behind the value stands one sum a piece of 1 MiB.
struct ObjectHeader {
  uint64_t value_bytes;
  uint32_t key_size, sum;  // of all the rest
  uint8_t key[object_key_max];
  uint64_t ttl_ms;  // 0: the scope's
  uint8_t padding[40];  // the value starts on 128
};
static_assert(sizeof(ObjectHeader) == 128);

inline uint32_t header_sum(ObjectHeader header) {
  header.sum = 0;
  return static_cast<uint32_t>(kernels::table().sum(&header, offsetof(ObjectHeader, padding)));
}
/// Whatever the header says, no more than it holds.
inline std::string_view object_key(const uint8_t *slot) {
  const auto *header = reinterpret_cast<const ObjectHeader *>(slot);
  return {reinterpret_cast<const char *>(header->key), std::min<uint64_t>(header->key_size, object_key_max)};
}
inline uint64_t object_piece_count(uint64_t value_bytes) { return (value_bytes + object_piece_bytes - 1) / object_piece_bytes; }
inline uint64_t object_sums_offset(uint64_t value_bytes) { return sizeof(ObjectHeader) + (value_bytes + 7) / 8 * 8; }
inline uint64_t object_slot_bytes(uint64_t value_bytes) { return object_sums_offset(value_bytes) + object_piece_count(value_bytes) * sizeof(uint64_t); }


inline std::string_view key_of(const kvc_object &object) { return {static_cast<const char *>(object.key), object.key_size}; }
/// Checks one item and, if they are asked for, adds up its parts.
[[nodiscard]] kvc_status check_object(uint64_t *part_bytes, const kvc_object &object, base::Error &error);
[[nodiscard]] kvc_status check_object_options(const kvc_object_options &options, uint32_t allowed, base::Error &error);

/// What became of the items: the call's status is that of the first that is not OK, and its error says which one that is.
struct Outcome {
  kvc_result &result;
  base::Error &error;
  kvc_status first = KVC_OK;
  uint64_t item_count = 0;
  void item(kvc_object &object, kvc_status status, const base::Error &why);
};

}  // namespace kvc::store
