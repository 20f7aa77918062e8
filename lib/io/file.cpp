#include "io/file.h"

#include <cerrno>
#include <climits>
#include <cstring>

namespace kvc::io {

using base::Error;
using base::fail;
using base::fail_system;

namespace {

std::span<iovec> after(std::span<iovec> pieces, uint64_t done) {
  while (!pieces.empty() && done >= pieces[0].iov_len) {
    done -= pieces[0].iov_len;
    pieces = pieces.subspan(1);
  }
  if (done) {
    pieces[0].iov_base = static_cast<uint8_t *>(pieces[0].iov_base) + done;
    pieces[0].iov_len -= done;
  }
  return pieces;
}

template <typename Move>
int move_whole(std::span<iovec> pieces, uint64_t offset, int at_end, Move &&move) {
  for (pieces = after(pieces, 0); !pieces.empty();) {
    uint64_t done = 0;
    const int failure = move(&done, pieces.first(pieces.size() < IOV_MAX ? pieces.size() : IOV_MAX), offset);
    if (failure == EINTR) continue;
    if (failure) return failure;
    if (done == 0) return at_end;
    offset += done;
    pieces = after(pieces, done);
  }
  return 0;
}

}  // namespace

int write_whole(FileSystem &files, int fd, std::span<iovec> pieces, uint64_t offset) {
  return move_whole(pieces, offset, EIO, [&](uint64_t *done, std::span<const iovec> part, uint64_t at) { return files.write_at(done, fd, part, at); });
}

int read_whole(FileSystem &files, int fd, std::span<iovec> pieces, uint64_t offset) {
  return move_whole(pieces, offset, ENODATA, [&](uint64_t *done, std::span<const iovec> part, uint64_t at) { return files.read_at(done, fd, part, at); });
}

kvc_status check_path(const char *path, Error &error) {
  if (!path || !*path) return fail(error, KVC_ERR_ARGUMENT, "path is %s: the name of a file is needed", path ? "empty" : "NULL");
  const size_t length = std::strlen(path);
  if (length >= PATH_MAX) return fail(error, KVC_ERR_ARGUMENT, "path has %zu bytes: at most %d", length, PATH_MAX - 1);
  const char *slash = std::strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!*name || std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0)
    return fail(error, KVC_ERR_ARGUMENT, "path \"%.150s\" names a directory: a file is needed", path);
  if (std::strlen(name) > NAME_MAX) return fail(error, KVC_ERR_ARGUMENT, "path \"%.100s...\": its last part has %zu bytes, at most %d", path, std::strlen(name), NAME_MAX);
  return KVC_OK;
}

File::~File() {
  if (fd_ >= 0) (void)files_.close(fd_);
}

kvc_status File::open(Error &error) {
  KVC_TRY(check_path(path_, error));
  switch (const int failure = uninterrupted([&] { return files_.open_file(&fd_, path_); })) {
    case 0: break;
    case ENOENT:
    case ENOTDIR: return fail(error, KVC_ERR_NOT_FOUND, "file \"%.150s\": there is none", path_);
    case ELOOP: return fail(error, KVC_ERR_ARGUMENT, "path \"%.150s\" is a symbolic link: name the file itself", path_);
    case EISDIR:
    case ENODEV:
    case ENXIO: return fail(error, KVC_ERR_ARGUMENT, "path \"%.150s\" is no regular file", path_);
    default: return fail_system(error, KVC_ERR_IO, failure, "file \"%.120s\" cannot be opened", path_);
  }
  if (const int failure = uninterrupted([&] { return files_.size(&bytes_, fd_); }))
    return fail_system(error, KVC_ERR_IO, failure, "file \"%.120s\": its size cannot be read", path_);
  return KVC_OK;
}

kvc_status File::read_at(std::span<iovec> pieces, uint64_t offset, Error &error) {
  const int failure = read_whole(files_, fd_, pieces, offset);
  if (failure == ENODATA) return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\" became shorter while it was read", path_);
  if (failure) return fail_system(error, KVC_ERR_IO, failure, "file \"%.120s\" cannot be read at byte %llu", path_, static_cast<unsigned long long>(offset));
  return KVC_OK;
}

kvc_status File::read_at(void *to, uint64_t size, uint64_t offset, Error &error) {
  iovec piece{to, size};
  return read_at({&piece, 1}, offset, error);
}

}  // namespace kvc::io
