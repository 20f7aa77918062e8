#pragma once
#include <cerrno>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "io/file_system.h"

namespace kvc::io {

/// The call again for as long as a signal interrupts it.
template <typename F>
int uninterrupted(F &&call) {
  int result;
  do {
    result = call();
  } while (result == EINTR);
  return result;
}

/// Every byte of `pieces`, however few a call moves; used up on the way.  An errno; of a file that ends before them ENODATA.
int write_whole(FileSystem &files, int fd, std::span<iovec> pieces, uint64_t offset);
int read_whole(FileSystem &files, int fd, std::span<iovec> pieces, uint64_t offset);

/// What is wrong with the path of a file that shall be read or written, before anything is tried.  ARGUMENT.
[[nodiscard]] kvc_status check_path(const char *path, base::Error &error);

/// A file that is read.
class File {
 public:
  /// `path` is borrowed: messages name it.
  File(FileSystem &files, const char *path) : files_(files), path_(path) {}
  ~File();
  File(const File &) = delete;
  File &operator=(const File &) = delete;

  /// NOT_FOUND.  ARGUMENT: no path, or what it names is no regular file.  IO.
  [[nodiscard]] kvc_status open(base::Error &error);
  uint64_t bytes() const { return bytes_; }
  const char *path() const { return path_; }
  /// All of `pieces`.  CORRUPT: the file became shorter.  IO.
  [[nodiscard]] kvc_status read_at(std::span<iovec> pieces, uint64_t offset, base::Error &error);
  [[nodiscard]] kvc_status read_at(void *to, uint64_t size, uint64_t offset, base::Error &error);

 private:
  FileSystem &files_;
  const char *path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace kvc::io
