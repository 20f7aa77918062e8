#include "io/replacement.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/random.h"

namespace kvc::io {

using base::Error;
using base::fail;
using base::fail_system;

Replacement::~Replacement() {
  if (fd_ >= 0) (void)files_.close(fd_);
  if (created_) (void)uninterrupted([&] { return files_.unlink(directory_, part_); });
  if (directory_ >= 0) (void)files_.close(directory_);
}

kvc_status Replacement::failed(const char *what, int failure, Error &error) const {
  return fail_system(error, KVC_ERR_IO, failure, "file \"%.120s\" %s; what was there before stays", path_, what);
}

kvc_status Replacement::open_directory(Error &error) {
  KVC_TRY(check_path(path_, error));
  const char *slash = std::strrchr(path_, '/');
  name_ = slash ? slash + 1 : path_;
  char directory[PATH_MAX] = ".";
  if (slash) {
    const auto length = static_cast<size_t>(slash == path_ ? 1 : slash - path_);  // of "/name" the root
    std::memcpy(directory, path_, length);
    directory[length] = 0;
  }
  if (const int failure = uninterrupted([&] { return files_.open_directory(&directory_, directory); }))
    return failed("cannot be written: its directory", failure, error);
  NameKind kind;
  if (const int failure = uninterrupted([&] { return files_.kind(&kind, directory_, name_); })) return failed("cannot be looked at", failure, error);
  if (kind == NameKind::other) return fail(error, KVC_ERR_ARGUMENT, "path \"%.150s\" is no regular file: it is not replaced", path_);
  return KVC_OK;
}

kvc_status Replacement::create(Error &error) {
  int failure = EEXIST;
  for (int tries = 0; failure == EEXIST && tries < 8; tries++) {
    uint64_t number;
    KVC_TRY(base::random_fill(&number, sizeof number, error));
    std::snprintf(part_, sizeof part_, ".kvc-%016llx.part", static_cast<unsigned long long>(number));
    failure = uninterrupted([&] { return files_.create_file(&fd_, directory_, part_); });
  }
  if (failure) return failed("cannot be written: a file beside it", failure, error);
  created_ = true;
  return KVC_OK;
}

kvc_status Replacement::begin(uint64_t bytes, Error &error) {
  KVC_TRY(open_directory(error));
  KVC_TRY(create(error));
  const int failure = uninterrupted([&] { return files_.allocate(fd_, bytes); });
  // Who cannot promise room finds out while writing.
  if (failure && failure != EOPNOTSUPP && failure != ENOSYS) return failed("cannot be written: no room beside it", failure, error);
  return KVC_OK;
}

kvc_status Replacement::write_at(std::span<iovec> pieces, uint64_t offset, Error &error) {
  const int failure = write_whole(files_, fd_, pieces, offset);
  return failure ? failed("cannot be written", failure, error) : KVC_OK;
}

/// An exchange keeps the old file, so that it can come back.
int Replacement::put_in_place() {
  int failure = uninterrupted([&] { return files_.exchange(directory_, part_, name_); });
  placed_ = Placed::instead_of_another;
  if (failure == ENOENT || failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP) {
    placed_ = failure == ENOENT ? Placed::where_none_was : Placed::over_another;
    failure = uninterrupted([&] { return files_.rename(directory_, part_, name_); });
  }
  if (failure) placed_ = Placed::no;
  return failure;
}

int Replacement::take_back() {
  if (placed_ == Placed::over_another) return ENOSYS;
  return uninterrupted([&] { return placed_ == Placed::instead_of_another ? files_.exchange(directory_, part_, name_) : files_.rename(directory_, name_, part_); });
}

kvc_status Replacement::commit(Error &error) {
  if (const int failure = uninterrupted([&] { return files_.sync(fd_); })) return failed("could not be brought to the disk", failure, error);
  if (const int failure = put_in_place()) return failed("cannot be put in place", failure, error);
  created_ = placed_ == Placed::instead_of_another;  // then that one is beside now
  const int failure = uninterrupted([&] { return files_.sync(directory_); });
  if (failure == 0) return KVC_OK;
  // Whether the new name survives a crash is not known: what was there comes back.
  if (take_back()) return fail_system(error, KVC_ERR_IO, failure, "file \"%.120s\" was replaced, and may not survive a crash: its directory", path_);
  created_ = true;
  return failed("could not be put in place: its directory", failure, error);
}

}  // namespace kvc::io
