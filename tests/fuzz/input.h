#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kvc/kvc.h"

/// What every target shares: numbers taken from the bytes of an input, and an end that the fuzzer sees.
namespace kvc::fuzz {

/// Ends the process when a promise is broken.
#define FUZZ_CHECK(condition)                                                              \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (0)

/// Bytes in order; zeros behind the end.
class Input {
 public:
  Input(const uint8_t *data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  void bytes(void *out, size_t size) {
    const size_t given = size < left() ? size : left();
    if (given) std::memcpy(out, at_, given);
    std::memset(static_cast<uint8_t *>(out) + given, 0, size - given);
    at_ += given;
  }
  template <typename T>
  T number() {
    T value{};
    bytes(&value, sizeof value);
    return value;
  }
  uint64_t below(uint64_t end) { return end ? number<uint16_t>() % end : 0; }
  /// Mostly what a host would say, at times anything.
  uint64_t count(uint64_t usual_end) {
    const auto how = number<uint8_t>();
    return how < 224 ? how % usual_end : how < 240 ? number<uint64_t>() : how < 250 ? KVC_ALL - how % 3 : uint64_t{1} << how % 64;
  }
  std::string text(size_t size_max) {
    std::string out(below(size_max + 1), '\0');
    bytes(out.data(), out.size());
    return out;
  }

 private:
  const uint8_t *at_, *end_;
};

/// What a host may count on after any call, whatever it was given.
inline void check_failure(kvc_status status, const kvc_error &error) {
  FUZZ_CHECK(status <= 0 && status != KVC_ERR_INTERNAL);
  FUZZ_CHECK(std::strcmp(kvc_status_name(status), "KVC_STATUS_UNKNOWN") != 0);
  if (status == KVC_OK) return;
  FUZZ_CHECK(error.status == status);
  FUZZ_CHECK(error.message[0] && !std::strchr(error.message, '\n') && std::memchr(error.message, 0, sizeof error.message));
}

}  // namespace kvc::fuzz
