#pragma once
#include <sys/uio.h>

#include <cstdint>
#include <span>

/// Files.  Everything that keeps what was stored goes through one seam, so that a test can make any call of it fail and can pull the plug.
namespace kvc::io {

/// What stands under a name.
enum class NameKind { absent, file, other };

/// The system calls that files are made of.  Each is one attempt, as the system makes it: it may be interrupted, and move fewer bytes than were
/// asked for.  All return an errno, 0 when done.  Names in a directory are single components.
class FileSystem {
 public:
  virtual int open_directory(int *fd, const char *path) = 0;
  /// To read.  A regular file under its own name: ELOOP for a symbolic link, EISDIR or ENODEV for what is no file.
  virtual int open_file(int *fd, const char *path) = 0;
  /// A new one, to be written, that nobody but its owner reads: EEXIST when the name is taken.
  virtual int create_file(int *fd, int directory, const char *name) = 0;
  virtual int close(int fd) = 0;
  virtual int size(uint64_t *bytes, int fd) = 0;
  /// Room for so many bytes, so that writing them does not end half way.
  virtual int allocate(int fd, uint64_t bytes) = 0;
  virtual int write_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) = 0;
  /// Nothing done and no errno: the end of the file.
  virtual int read_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) = 0;
  /// Of a file, or of the names in a directory.
  virtual int sync(int fd) = 0;
  virtual int kind(NameKind *out, int directory, const char *name) = 0;
  /// What stands under `to` is replaced.
  virtual int rename(int directory, const char *from, const char *to) = 0;
  /// Both must be there.  EINVAL, ENOSYS: this file system cannot.
  virtual int exchange(int directory, const char *a, const char *b) = 0;
  virtual int unlink(int directory, const char *name) = 0;

 protected:
  ~FileSystem() = default;
};

/// The system's.
FileSystem &posix();

}  // namespace kvc::io
