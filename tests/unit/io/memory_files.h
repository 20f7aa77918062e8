#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "io/file_system.h"

namespace kvc_test {

/// One directory, "disk", of a machine whose plug can be pulled: what was not synced may be lost then, bytes and names each for themselves.
class MemoryFiles : public kvc::io::FileSystem {
 public:
  uint64_t capacity = UINT64_MAX;
  bool exchanges = true, other_in_the_way = false;

  std::string content(const std::string &name) const { return names_.contains(name) ? names_.at(name)->data : "(absent)"; }
  void put(const std::string &name, const std::string &data) {
    names_[name] = durable_names_[name] = std::make_shared<Node>(Node{data, data});
  }
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> out;
    for (const auto &[name, node] : names_) out[name] = node->data;
    return out;
  }
  size_t open_count() const { return open_.size(); }
  /// Nothing that runs goes on: what was synced is there, of the rest what the flags say.
  void pull_plug(bool bytes_survive, bool names_survive) {
    open_.clear();
    if (!names_survive) names_ = durable_names_;
    durable_names_ = names_;
    for (auto &[name, node] : names_) (bytes_survive ? node->durable : node->data) = bytes_survive ? node->data : node->durable;
  }

  int open_directory(int *fd, const char *path) override { return std::strcmp(path, "disk") ? ENOENT : add(fd, nullptr); }
  int open_file(int *fd, const char *path) override {
    const std::string name(path + (std::strncmp(path, "disk/", 5) ? 0 : 5));
    return names_.contains(name) ? add(fd, names_[name]) : ENOENT;
  }
  int create_file(int *fd, int, const char *name) override {
    if (names_.contains(name)) return EEXIST;
    return add(fd, names_[name] = std::make_shared<Node>());
  }
  int close(int fd) override { return open_.erase(fd) ? 0 : EBADF; }
  int size(uint64_t *bytes, int fd) override {
    *bytes = open_.at(fd)->data.size();
    return 0;
  }
  int allocate(int fd, uint64_t bytes) override {
    if (used() - open_.at(fd)->data.size() + bytes > capacity) return ENOSPC;
    open_.at(fd)->data.resize(std::max<size_t>(bytes, open_.at(fd)->data.size()));
    return 0;
  }
  int write_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    std::string &data = open_.at(fd)->data;
    for (const iovec &piece : pieces) {
      const uint64_t end = offset + *done + piece.iov_len;
      if (end > data.size() && used() + end - data.size() > capacity) return *done ? 0 : ENOSPC;
      if (end > data.size()) data.resize(end);
      data.replace(offset + *done, piece.iov_len, static_cast<const char *>(piece.iov_base), piece.iov_len);
      *done += piece.iov_len;
    }
    return 0;
  }
  int read_at(uint64_t *done, int fd, std::span<const iovec> pieces, uint64_t offset) override {
    const std::string &data = open_.at(fd)->data;
    for (const iovec &piece : pieces) {
      if (offset + *done >= data.size()) break;
      *done += data.copy(static_cast<char *>(piece.iov_base), piece.iov_len, offset + *done);
    }
    return 0;
  }
  int sync(int fd) override {
    if (open_.at(fd)) open_.at(fd)->durable = open_.at(fd)->data;
    else durable_names_ = names_;
    return 0;
  }
  int kind(kvc::io::NameKind *out, int, const char *name) override {
    *out = other_in_the_way ? kvc::io::NameKind::other : names_.contains(name) ? kvc::io::NameKind::file : kvc::io::NameKind::absent;
    return 0;
  }
  int rename(int, const char *from, const char *to) override {
    if (!names_.contains(from)) return ENOENT;
    names_[to] = names_[from];
    names_.erase(from);
    return 0;
  }
  int exchange(int, const char *a, const char *b) override {
    if (!exchanges) return EINVAL;
    if (!names_.contains(a) || !names_.contains(b)) return ENOENT;
    std::swap(names_[a], names_[b]);
    return 0;
  }
  int unlink(int, const char *name) override { return names_.erase(name) ? 0 : ENOENT; }

 private:
  struct Node {
    std::string data, durable;
  };
  int add(int *fd, std::shared_ptr<Node> node) {
    *fd = next_++;
    open_[*fd] = std::move(node);
    return 0;
  }
  uint64_t used() const {
    uint64_t bytes = 0;
    for (const auto &[name, node] : names_) bytes += node->data.size();
    return bytes;
  }

  std::map<std::string, std::shared_ptr<Node>> names_, durable_names_;
  std::map<int, std::shared_ptr<Node>> open_;  // null: the directory
  int next_ = 3;
};

}  // namespace kvc_test
