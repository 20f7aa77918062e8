#include "store/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/fault.h"

namespace kvc::store {

namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", kTail = "\n]}\n";
constexpr size_t kSpanText = 320;

bool write_all(int file, const char *data, size_t bytes, uint64_t at) {
  while (bytes) {
    const ssize_t n = KVC_FAULT("store.trace.write") ? (errno = ENOSPC, -1) : pwrite(file, data, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data += n, bytes -= static_cast<size_t>(n), at += static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

thread_local Trace::Ids Trace::current_;

uint64_t Trace::now_ns() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

Trace::~Trace() {
  base::Error nobody;
  (void)stop(nobody);
}

kvc_status Trace::start(const char *path, base::Error &error) {
  std::lock_guard lock(mutex_);
  base::Error of_before;
  const kvc_status ended = end(of_before);
  KVC_TRY(begin(path, error));
  if (ended != KVC_OK) error = of_before;
  return ended;
}

kvc_status Trace::stop(base::Error &error) {
  std::lock_guard lock(mutex_);
  return end(error);
}

/// Under the lock.
kvc_status Trace::begin(const char *path, base::Error &error) {
  spans_.reserve(span_max);
  text_.reserve(kHead.size() + span_max * kSpanText + kTail.size());
  file_ = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);  // a pipe would wait for its reader
  struct stat status {};
  int why = file_ < 0 || fstat(file_, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : ENODEV;
  if (!why && ftruncate(file_, 0) != 0) why = errno;
  if (why) {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    return base::fail_system(error, KVC_ERR_IO, why, "path \"%.100s\": a trace goes to a regular file", path);
  }
  write_errno_ = 0;
  end_ = kHead.size();
  first_ = true;
  text_.assign(kHead.begin(), kHead.end());
  text_.insert(text_.end(), kTail.begin(), kTail.end());
  if (!write_all(file_, text_.data(), text_.size(), 0)) {
    why = errno;
    ::close(file_);
    file_ = -1;
    return base::fail_system(error, KVC_ERR_IO, why, "path \"%.100s\"", path);
  }
  on_.store(true, std::memory_order_relaxed);
  return KVC_OK;
}

/// Under the lock.
kvc_status Trace::end(base::Error &error) {
  if (file_ < 0) return KVC_OK;
  flush();
  on_.store(false, std::memory_order_relaxed);
  if (::close(file_) != 0 && !write_errno_) write_errno_ = errno;
  file_ = -1;
  spans_.clear();
  if (!write_errno_) return KVC_OK;
  return base::fail_system(error, KVC_ERR_IO, write_errno_, "the trace ended early: what came before parses");
}

void Trace::add(const char *name, uint64_t begin_ns, kvc_status status, uint64_t bytes) {
  const uint64_t end_ns = now_ns();
  std::lock_guard lock(mutex_);
  if (!on()) return;
  spans_.push_back({name, begin_ns, end_ns, current_, status, bytes, gettid()});
  if (spans_.size() == span_max) flush();
}

void Trace::format(const Span &span) {
  char line[kSpanText];
  int n = std::snprintf(line, sizeof line, "%s\n{\"name\": \"%s\", \"cat\": \"kvc\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %llu.%03u, \"dur\": %llu.%03u, \"args\": {\"status\": %d, \"bytes\": %llu",
                        first_ ? "" : ",", span.name, getpid(), span.thread, static_cast<unsigned long long>(span.begin_ns / 1000), static_cast<unsigned>(span.begin_ns % 1000),
                        static_cast<unsigned long long>((span.end_ns - span.begin_ns) / 1000), static_cast<unsigned>((span.end_ns - span.begin_ns) % 1000), span.status,
                        static_cast<unsigned long long>(span.bytes));
  if (span.ids.high || span.ids.low)
    n += std::snprintf(line + n, sizeof line - static_cast<size_t>(n), ", \"trace\": \"%016llx%016llx\"", static_cast<unsigned long long>(span.ids.high), static_cast<unsigned long long>(span.ids.low));
  n += std::snprintf(line + n, sizeof line - static_cast<size_t>(n), "}}");
  text_.insert(text_.end(), line, line + n);
  first_ = false;
}

/// Under the lock.
void Trace::flush() {
  if (spans_.empty() || write_errno_) return;
  text_.clear();
  for (const Span &span : spans_) format(span);
  spans_.clear();
  text_.insert(text_.end(), kTail.begin(), kTail.end());
  if (write_all(file_, text_.data(), text_.size(), end_)) {
    end_ += text_.size() - kTail.size();
    return;
  }
  write_errno_ = errno;
  on_.store(false, std::memory_order_relaxed);
  // What was written before stands, and ends where it ended.
  if (ftruncate(file_, static_cast<off_t>(end_)) == 0 && pwrite(file_, kTail.data(), kTail.size(), static_cast<off_t>(end_)) < 0) return;
}

const char *operation_name(uint32_t operation) {
  static constexpr const char *names[] = {"", "append", "gather", "match", "attend", "select", "prefetch", "lease", "observe", "publish", "attach", "save", "restore", "flush",
                                          "verify", "object put", "object get", "object exists", "object delete", "object list", "scope clear"};
  return operation < std::size(names) ? names[operation] : "";
}

}  // namespace kvc::store
