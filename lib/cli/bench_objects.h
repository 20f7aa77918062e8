#pragma once
#include <array>
#include <cstring>

#include "cli/bench_host.h"

/// Objects of 4 KiB that no cache holds: what figures of small objects have in common.
namespace kvc::cli {

constexpr uint64_t kObjects = (uint64_t{2} << 30) / 4096, kValueBytes = 4096, kSlotBytes = 4608;

using Key = std::array<uint8_t, 16>;
/// As engines make them: a digest.
inline Key key_of(uint64_t i) {
  Noise noise{i};
  const uint64_t words[2] = {noise.next(), noise.next()};
  Key key;
  std::memcpy(key.data(), words, sizeof words);
  return key;
}

struct Item {
  Key key;
  kvc_bytes part{};
  kvc_object object{};
  void set(uint64_t i, void *data) {
    key = key_of(i);
    part = {data, kValueBytes};
    object.key = key.data();
    object.key_size = key.size();
    object.parts = &part;
    object.part_count = 1;
  }
};

inline void put_all(const StoreHandles &handles, const Pool &values, kvc_error &error) {
  constexpr uint64_t batch = 64;
  Item items[batch];
  kvc_object objects[batch];
  for (uint64_t i = 0; i < kObjects; i += batch) {
    for (uint64_t j = 0; j < batch; j++) {
      items[j].set(i + j, values.data() + (i + j) * kValueBytes);
      objects[j] = items[j].object;
    }
    must(kvc_object_put(nullptr, handles.scope, objects, batch, nullptr, nullptr, &error), error);
  }
}

}  // namespace kvc::cli
