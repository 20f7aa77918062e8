#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace kvc_test {

/// A new folder below `parent`; gone at the end, with all that is in it.
class Folder {
 public:
  explicit Folder(const std::filesystem::path &parent = std::filesystem::temp_directory_path()) {
    std::string name = parent / "kvc-test-XXXXXX";
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder below " + parent.string());
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  const std::filesystem::path &path() const { return path_; }
  std::string operator/(const std::string &name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvc_test
