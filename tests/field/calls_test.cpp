// What a host sees of calls that fail, of what they print, and of what they cost where it can be counted.
#include <dlfcn.h>
#include <openssl/evp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "field_host.h"

namespace {

std::atomic<uint64_t> g_hashed_bytes{0};

}  // namespace

/// In place of libcrypto's: counts what names cost.
extern "C" int EVP_DigestUpdate(EVP_MD_CTX *context, const void *data, size_t size) {
  static const auto real = reinterpret_cast<int (*)(EVP_MD_CTX *, const void *, size_t)>(dlsym(RTLD_NEXT, "EVP_DigestUpdate"));
  g_hashed_bytes += size;
  return real(context, data, size);
}

namespace kvc::field {
namespace {

TEST(FieldReports, B109_with_address_space_at_its_limit_every_call_gives_a_status_and_the_host_lives) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory is under the limit too";
#endif
  const pid_t child = fork();
  if (child == 0) {
    FieldHost host(uint64_t{2} << 30);  // not touched
    const SeqHandle kept = host.stored(ids(64), 1);
    uint64_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%lu", &pages) != 1) _exit(2);
    fclose(statm);
    const rlim_t now = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    const rlimit limit{now + (24u << 20), RLIM_INFINITY};
    const std::vector<int32_t> many = ids(1u << 19);
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
    // Ids ahead of rows, mebibytes of them, until no more is given.
    std::vector<kvc_seq *> made;
    kvc_status status = KVC_OK;
    while (status == KVC_OK && made.size() < 100) {
      made.push_back(host.create().release());
      status = host.append(made.back(), many, 0, 0, 1);
    }
    if (status != KVC_ERR_NO_MEMORY || !host.error.message[0]) _exit(7);
    if (host.info_of(made.back()).tokens_given != 0) _exit(11);
    kvc_store *other = nullptr;
    auto options = sized<kvc_store_options>();
    options.memory_bytes = 1u << 30;
    if (kvc_open(&other, "mem:", &options, &host.error) != KVC_ERR_NO_MEMORY || other) _exit(4);
    if (!host.error.message[0]) _exit(5);
    for (kvc_seq *seq : made)
      if (kvc_seq_release(seq, nullptr) != KVC_OK) _exit(6);
    if (!host.read(kept, 0, 64, 1).empty()) _exit(9);
    if (kvc_store_verify(nullptr, host.store, nullptr, nullptr) != KVC_OK) _exit(10);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "the host died of signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the _exit in this test";
}

/// What the process writes to one of its first files while this lives.
class Captured {
 public:
  explicit Captured(int fd) : fd_(fd), kept_(dup(fd)), file_(tmpfile()) { dup2(fileno(file_), fd_); }
  ~Captured() { restore(), fclose(file_); }
  long bytes() {
    restore();
    fseek(file_, 0, SEEK_END);
    return ftell(file_);
  }

 private:
  void restore() {
    if (kept_ < 0) return;
    dup2(kept_, fd_), close(kept_), kept_ = -1;
  }
  const int fd_;
  int kept_;
  FILE *const file_;
};

TEST(FieldReports, B128_thousands_of_failures_print_nothing) {
  fflush(stdout), fflush(stderr);
  long out = -1, err = -1;
  {
    Captured standard_out(1), standard_error(2);
    FieldHost host(2u << 20);
    const SeqHandle seq = host.stored(ids(64), 1);
    const std::string huge(host.info().memory_bytes, 'h');
    for (int i = 0; i < 2000; i++) {
      (void)kvc_seq_truncate(seq, 1000, &host.error);
      (void)host.append(seq, {1}, 70, 71, 1);
      (void)kvc_seq_release(reinterpret_cast<kvc_seq *>(8), nullptr);
      (void)host.put(host.scope, std::string(65, 'k'), "value");
      if (i % 100 == 0) (void)host.put(host.scope, "huge", huge);
      kvc_store *store = nullptr;
      (void)kvc_open(&store, "nothing:", nullptr, &host.error);
    }
    fflush(stdout), fflush(stderr);
    out = standard_out.bytes(), err = standard_error.bytes();
  }
  EXPECT_EQ(out, 0);
  EXPECT_EQ(err, 0);
}

TEST(FieldReports, B133_names_are_made_once_an_append_hashes_its_chunk_and_an_early_miss_little_more_than_the_first) {
  const auto hashed = [](const auto &work) {
    const uint64_t before = g_hashed_bytes;
    work();
    return g_hashed_bytes - before;
  };
  FieldHost host(64u << 20);
  constexpr uint64_t kTokens = 8192, kNameBytes = 32 + 12 + 4 + 4 + kChunk * 4 + 4;
  const std::vector<int32_t> tokens = ids(kTokens);
  SeqHandle seq = host.create();
  EXPECT_LE(hashed([&] { EXPECT_EQ(host.append(seq, tokens, 0, kTokens, 1), KVC_OK) << host.error.message; }), kTokens / kChunk * (kNameBytes + 64));
  EXPECT_GE(hashed([&] { host.match(tokens); }), kTokens * 4) << "nothing is counted";
  EXPECT_LE(hashed([&] { host.match(tokens); }), kTokens / kChunk * kNameBytes);
  std::vector<int32_t> other = tokens;
  other[3]++;
  EXPECT_LE(hashed([&] {
              uint64_t length = 99;
              host.match(other, &length);
              EXPECT_EQ(length, 0u);
            }),
            16 * kNameBytes)
      << "a miss in the first chunk hashes the rest of the prompt";
  // One token at a time: each chunk is named when it is complete, and nothing before it again.
  const uint64_t steps = hashed([&] {
    for (uint64_t i = 0; i < 160; i++) ASSERT_EQ(host.append(seq, {static_cast<int32_t>(i)}, kTokens + i, kTokens + i + 1, 1), KVC_OK) << host.error.message;
  });
  EXPECT_LE(steps, 160 / kChunk * (kNameBytes + 64));
}

}  // namespace
}  // namespace kvc::field
