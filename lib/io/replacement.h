#pragma once
#include <climits>

#include "io/file.h"

namespace kvc::io {

/// A file that is written beside the one it will replace.  Until commit() gives KVC_OK what stood under the path stays, or its absence; what was
/// written is taken away by the destructor.  After a crash a file ".kvc-<16 hex digits>.part" may be left beside.
class Replacement {
 public:
  /// `path` is borrowed.
  Replacement(FileSystem &files, const char *path) : files_(files), path_(path) {}
  ~Replacement();
  Replacement(const Replacement &) = delete;
  Replacement &operator=(const Replacement &) = delete;

  /// Room for a new file of so many bytes.  ARGUMENT: no path, or what stands there is no regular file.  IO.
  [[nodiscard]] kvc_status begin(uint64_t bytes, base::Error &error);
  /// `pieces` are used up.
  [[nodiscard]] kvc_status write_at(std::span<iovec> pieces, uint64_t offset, base::Error &error);
  /// It lies on the disk, then it is renamed, then the name lies there too.
  [[nodiscard]] kvc_status commit(base::Error &error);

 private:
  kvc_status open_directory(base::Error &error);
  kvc_status create(base::Error &error);
  kvc_status failed(const char *what, int failure, base::Error &error) const;
  int put_in_place();
  int take_back();

  FileSystem &files_;
  const char *path_, *name_ = nullptr;
  char part_[32] = {};  // the name of what is written
  int directory_ = -1, fd_ = -1;
  bool created_ = false;
  enum class Placed { no, instead_of_another, where_none_was, over_another } placed_ = Placed::no;
};

}  // namespace kvc::io
