#pragma once
#include <cstring>
#include <string_view>

#include "store/sequence.h"

namespace kvc::store {

/// What a sequence is handed over by.
struct HandoverName {
  static constexpr size_t bytes_max = 64;
  const Scope *scope;
  uint8_t size;
  uint8_t bytes[bytes_max];

  HandoverName(const Scope &of, std::string_view name) : scope(&of), size(static_cast<uint8_t>(name.size())), bytes{} { std::memcpy(bytes, name.data(), name.size()); }
  friend auto operator<=>(const HandoverName &, const HandoverName &) = default;
};

/// ARGUMENT: 1..64 bytes.
[[nodiscard]] kvc_status check_handover_name(std::string_view name, base::Error &error);

/// A sequence as it was when it was published: nobody writes to it.
struct Handover {
  Sequence *snapshot;
  uint64_t deadline_ns;
  uint32_t users = 1;  // its name, and calls that are taking a fork of it; under the store's lock
};

}  // namespace kvc::store
