#pragma once
#include <cerrno>
#include <vector>

#include "io/file_system.h"

namespace kvc_test {

/// Another file system, of which one call, or every call from one on, goes wrong.
class FaultyFiles final : public kvc::io::FileSystem {
 public:
  enum class How {
    error,   // nothing is done
    torn,    // a write, or a read, does a part of its work and then fails; every other call fails
    brief,   // a write, or a read, moves one byte and that is all: no failure
    signal,  // interrupted: nothing is done, and the next one works
    plug,    // the machine is off: from here on nothing is done any more
  };
  explicit FaultyFiles(kvc::io::FileSystem &files) : files_(files) {}
  /// The nth call from now on, 1 for the next; 0: none.
  void arm(uint64_t nth, How how, int failure = EIO, bool lasting = false) {
    at_ = nth ? calls_ + nth : 0, how_ = how, failure_ = failure, lasting_ = lasting || how == How::plug;
  }
  uint64_t calls() const { return calls_; }
  bool has_fired() const { return at_ && calls_ >= at_; }

  int open_directory(int *fd, const char *path) override { return call([&] { return files_.open_directory(fd, path); }); }
  int open_file(int *fd, const char *path) override { return call([&] { return files_.open_file(fd, path); }); }
  int create_file(int *fd, int directory, const char *name) override { return call([&] { return files_.create_file(fd, directory, name); }); }
  int close(int fd) override {
    if (!is_bad()) return files_.close(fd);
    if (how_ != How::plug) (void)files_.close(fd);  // closed whatever it says
    return failure_;
  }
  int size(uint64_t *bytes, int fd) override { return call([&] { return files_.size(bytes, fd); }); }
  int allocate(int fd, uint64_t bytes) override { return call([&] { return files_.allocate(fd, bytes); }); }
  int write_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    return move(pieces, [&](std::span<const iovec> part) { return files_.write_at(done, fd, part, offset); });
  }
  int read_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    return move(pieces, [&](std::span<const iovec> part) { return files_.read_at(done, fd, part, offset); });
  }
  int sync(int fd) override { return call([&] { return files_.sync(fd); }); }
  int kind(kvc::io::NameKind *out, int directory, const char *name) override { return call([&] { return files_.kind(out, directory, name); }); }
  int rename(int directory, const char *from, const char *to) override { return call([&] { return files_.rename(directory, from, to); }); }
  int exchange(int directory, const char *a, const char *b) override { return call([&] { return files_.exchange(directory, a, b); }); }
  int unlink(int directory, const char *name) override { return call([&] { return files_.unlink(directory, name); }); }

 private:
  bool is_bad() {
    const uint64_t call = ++calls_;
    return at_ && (call == at_ || (lasting_ && call > at_));
  }
  template <typename F>
  int call(F &&f) {
    if (!is_bad() || how_ == How::brief) return f();
    return how_ == How::signal ? EINTR : failure_;
  }
  template <typename F>
  int move(std::span<const iovec> pieces, F &&f) {
    if (!is_bad()) return f(pieces);
    if (how_ == How::signal) return EINTR;
    if (how_ == How::error || how_ == How::plug) return failure_;
    iovec part = pieces[0];
    part.iov_len = how_ == How::brief || part.iov_len == 1 ? 1 : part.iov_len / 2;
    const int result = f({&part, 1});
    return how_ == How::brief ? result : failure_;
  }

  kvc::io::FileSystem &files_;
  uint64_t calls_ = 0, at_ = 0;
  How how_ = How::error;
  int failure_ = EIO;
  bool lasting_ = false;
};

}  // namespace kvc_test
