#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "kvc/types.h"

namespace kvc::store {

/// Spans of calls, written to a file that Perfetto and chrome://tracing load.  Kept until some hundreds wait, then written by whoever adds the last, in
/// one write that also ends the file: it parses after every write, whatever becomes of the process.  A file that cannot be written ends the recording;
/// its end says so.  Threads: any.
class Trace {
 public:
  struct Ids {
    uint64_t high = 0, low = 0;
  };
  struct Span {
    const char *name;
    uint64_t begin_ns, end_ns;
    Ids ids;
    kvc_status status;
    uint64_t bytes;
    int thread;
  };
  static constexpr uint32_t span_max = 512;

  explicit Trace(std::pmr::memory_resource *resource) : spans_(resource), text_(resource) {}
  ~Trace();
  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Ends what is being recorded.  IO: what was lost of that, and this has begun; or this could not be.  Throws std::bad_alloc.
  [[nodiscard]] kvc_status start(const char *path, base::Error &error);
  /// IO: what was lost since the start.
  [[nodiscard]] kvc_status stop(base::Error &error);
  void add(const char *name, uint64_t begin_ns, kvc_status status, uint64_t bytes);
  static uint64_t now_ns();

  /// The trace id of the call that runs in this thread, which goes with all its spans.
  class WithIds {
   public:
    explicit WithIds(Ids ids) : before_(current_) { current_ = ids; }
    ~WithIds() { current_ = before_; }
    WithIds(const WithIds &) = delete;
    WithIds &operator=(const WithIds &) = delete;

   private:
    const Ids before_;
  };

 private:
  kvc_status begin(const char *path, base::Error &error);
  kvc_status end(base::Error &error);
  void flush();
  void format(const Span &span);

  static thread_local Ids current_;
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  int file_ = -1, write_errno_ = 0;
  uint64_t end_ = 0;  // where the next span goes, over the end of the list
  bool first_ = true;
  std::pmr::vector<Span> spans_;
  std::pmr::vector<char> text_;
};

/// A span of what a call does inside, from here to the end of the block.
class TraceSpan {
 public:
  TraceSpan(Trace &trace, const char *name) : trace_(trace), name_(name), begin_ns_(trace.on() ? Trace::now_ns() : 0) {}
  ~TraceSpan() {
    if (begin_ns_) [[unlikely]] trace_.add(name_, begin_ns_, KVC_OK, 0);
  }
  TraceSpan(const TraceSpan &) = delete;
  TraceSpan &operator=(const TraceSpan &) = delete;

 private:
  Trace &trace_;
  const char *const name_;
  const uint64_t begin_ns_;
};

/// Of KVC_OP_*.
const char *operation_name(uint32_t operation);

}  // namespace kvc::store
