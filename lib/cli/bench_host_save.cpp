#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/bench_host.h"

/// A sequence of 1 GiB into a file that is on the disk when the call returns, against one plain write of as many bytes.
namespace kvc::cli {
namespace {

constexpr uint64_t write_bytes = uint64_t{8} << 20;

[[noreturn]] void fail_with_errno(const std::string &what) { throw std::system_error(errno, std::generic_category(), what); }

/// The same bytes from memory like the store's, in large writes, synced once.
void write_plainly(const std::string &path, const uint8_t *from, uint64_t bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail_with_errno(path);
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t written = write(fd, from + at, std::min(write_bytes, bytes - at));
    if (written <= 0) fail_with_errno(path);
    at += static_cast<uint64_t>(written);
  }
  if (fsync(fd) != 0 || close(fd) != 0) fail_with_errno(path);
}

}  // namespace

Figure HostBench::save() {
  RowsFixture &f = rows();
  const kvc_seq *seq = f.long_sequences()[0];
  const std::string stem = folder_ + "/kvc-bench-" + std::to_string(getpid()), saved = stem + ".kvc", plain = stem + ".plain";
  const auto remove = [&](uint64_t) {
    std::error_code none;
    std::filesystem::remove(saved, none);
    std::filesystem::remove(plain, none);
  };
  must(kvc_seq_save(seq, saved.c_str(), nullptr, &f.error), f.error);
  const uint64_t bytes = std::filesystem::file_size(saved);
  Contestant contestants[] = {{[&](uint64_t) { must(kvc_seq_save(seq, saved.c_str(), nullptr, &f.error), f.error); }, remove, remove},
                              {[&](uint64_t place) { write_plainly(plain, f.pages.data() + place % 2 * (f.pages.bytes() / 2 / 4096 * 4096), std::min(bytes, f.pages.bytes() / 2)); }, remove, remove}};
  race(contestants, seconds_, 1);
  Figure figure;
  figure.value = static_cast<double>(bytes) / contestants[0].ns.median();
  figure.p99 = static_cast<double>(bytes) / contestants[0].ns.quantile(0.99);
  figure.baseline = static_cast<double>(std::min(bytes, f.pages.bytes() / 2)) / contestants[1].ns.median();
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

}  // namespace kvc::cli
