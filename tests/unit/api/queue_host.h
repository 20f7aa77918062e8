#pragma once
#include <poll.h>

#include <functional>
#include <map>

#include "host.h"

/// A host with a queue.
namespace kvc_test {

using QueueHandle = Handle<kvc_queue, kvc_queue_release>;

inline QueueHandle make_queue(kvc_store *store, uint32_t depth = 0, uint64_t description_bytes = 0) {
  auto options = sized<kvc_queue_options>();
  options.depth = depth, options.description_bytes = description_bytes;
  QueueHandle queue;
  ErrorText error;
  EXPECT_EQ(kvc_queue_create(queue.out(), store, &options, &error), KVC_OK) << error.message;
  return queue;
}

inline kvc_call queued(kvc_queue *queue, uint64_t user = 0, uint32_t flags = 0, uint64_t timeout_us = 0) {
  auto call = sized<kvc_call>();
  call.queue = queue, call.user = user, call.flags = flags, call.timeout_us = timeout_us;
  return call;
}

/// What one drain gives.
inline std::vector<kvc_result> drain(kvc_queue *queue, uint64_t timeout_us = 0, size_t capacity = 64) {
  std::vector<kvc_result> results(capacity);
  KVC_INIT(&results[0]);
  size_t count = 0;
  ErrorText error;
  EXPECT_EQ(kvc_queue_drain(results.data(), capacity, &count, queue, timeout_us, &error), KVC_OK) << error.message;
  results.resize(count);
  return results;
}

/// Drains until so many results are there.
inline std::vector<kvc_result> drain_until(kvc_queue *queue, size_t count) {
  std::vector<kvc_result> all;
  while (all.size() < count) {
    const auto some = drain(queue, 1000000);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

inline bool readable(int fd) {
  pollfd p = {fd, POLLIN, 0};
  EXPECT_GE(poll(&p, 1, 0), 0);
  return p.revents & POLLIN;
}

/// f16 rows of one layer, 1 head of 8 dims: token t holds value(t) in every element.
struct Rows {
  std::vector<uint16_t> k, v;
  explicit Rows(size_t tokens) : k(tokens * 8, 0xDEAD), v(tokens * 8, 0xDEAD) {}
  static uint16_t value(uint64_t writer, uint64_t token, bool is_k) { return static_cast<uint16_t>(stamp(writer, is_k, 0, token, 0, 0)); }
  Rows &fill(uint64_t writer, uint64_t begin) {
    for (size_t i = 0; i < k.size(); i++) k[i] = value(writer, begin + i / 8, true), v[i] = value(writer, begin + i / 8, false);
    return *this;
  }
  /// The first token that is not as `writer` stamped it; the number of tokens if all are.
  size_t wrong(uint64_t writer, uint64_t begin) const {
    for (size_t i = 0; i < k.size(); i++)
      if (k[i] != value(writer, begin + i / 8, true) || v[i] != value(writer, begin + i / 8, false)) return i / 8;
    return k.size() / 8;
  }
  kvc_rows describe(uint64_t begin) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_begin = begin, rows.token_count = k.size() / 8;
    rows.k.data = k.data(), rows.v.data = v.data(), rows.k.bytes = rows.v.bytes = k.size() * 2;
    return rows;
  }
};

}  // namespace kvc_test
