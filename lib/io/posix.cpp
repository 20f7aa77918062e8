#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <type_traits>

#include "base/fault.h"
#include "io/file_system.h"

namespace kvc::io {
namespace {

int errno_of(int result) { return result < 0 ? errno : 0; }

int moved(uint64_t *done, ssize_t result) {
  if (result < 0) return errno;
  *done = static_cast<uint64_t>(result);
  return 0;
}

int piece_count(std::span<const iovec> pieces) { return static_cast<int>(pieces.size() < IOV_MAX ? pieces.size() : IOV_MAX); }

class Posix final : public FileSystem {
 public:
  int open_directory(int *fd, const char *path) override {
    if (KVC_FAULT("io.directory.open")) return EIO;
    return errno_of(*fd = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  int open_file(int *fd, const char *path) override {
    if (KVC_FAULT("io.file.open")) return EIO;
    // Without waiting: a pipe under this name would make it wait for a writer.
    const int opened = ::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (opened < 0) return errno;
    struct stat status;
    int failure = errno_of(::fstat(opened, &status));
    if (failure == 0 && !S_ISREG(status.st_mode)) failure = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
    if (failure == 0) *fd = opened;
    else ::close(opened);
    return failure;
  }
  int create_file(int *fd, int directory, const char *name) override {
    if (KVC_FAULT("io.file.create")) return EIO;
    return errno_of(*fd = ::openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  }
  int close(int fd) override { return errno_of(::close(fd)); }
  int size(uint64_t *bytes, int fd) override {
    if (KVC_FAULT("io.file.size")) return EIO;
    struct stat status;
    if (::fstat(fd, &status) < 0) return errno;
    *bytes = static_cast<uint64_t>(status.st_size);
    return 0;
  }
  int allocate(int fd, uint64_t bytes) override {
    if (KVC_FAULT("io.file.allocate")) return ENOSPC;
    return errno_of(::fallocate(fd, 0, 0, static_cast<off_t>(bytes)));
  }
  int write_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    if (KVC_FAULT("io.file.write")) return EIO;
    return moved(done, ::pwritev(fd, pieces.data(), piece_count(pieces), static_cast<off_t>(offset)));
  }
  int read_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    if (KVC_FAULT("io.file.read")) return EIO;
    return moved(done, ::preadv(fd, pieces.data(), piece_count(pieces), static_cast<off_t>(offset)));
  }
  int sync(int fd) override {
    if (KVC_FAULT("io.file.sync")) return EIO;
    return errno_of(::fsync(fd));
  }
  int kind(NameKind *out, int directory, const char *name) override {
    if (KVC_FAULT("io.name.kind")) return EIO;
    struct stat status;
    if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      *out = S_ISREG(status.st_mode) ? NameKind::file : NameKind::other;
      return 0;
    }
    if (errno != ENOENT) return errno;
    *out = NameKind::absent;
    return 0;
  }
  int rename(int directory, const char *from, const char *to) override {
    if (KVC_FAULT("io.name.rename")) return EIO;
    return errno_of(::renameat(directory, from, directory, to));
  }
  int exchange(int directory, const char *a, const char *b) override {
    if (KVC_FAULT("io.name.exchange")) return EIO;
    return errno_of(::renameat2(directory, a, directory, b, RENAME_EXCHANGE));
  }
  int unlink(int directory, const char *name) override {
    if (KVC_FAULT("io.name.unlink")) return EIO;
    return errno_of(::unlinkat(directory, name, 0));
  }
};

// Queued saves go on while a process ends.
static_assert(std::is_trivially_destructible_v<Posix>);
constinit Posix files;

}  // namespace

FileSystem &posix() { return files; }

}  // namespace kvc::io
