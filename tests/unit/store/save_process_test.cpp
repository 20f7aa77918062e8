#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "../api/host.h"
#include "../folder.h"

/// What one process saved another restores.
namespace {

using namespace kvc_test;

constexpr uint64_t kTokens = 150, kSide = 2 * kTokens * 2 * 8 * 2;  // two layers, two heads of 8, f16

struct ProcessTest : testing::Test {
  Folder folder;
  Host host{{full_layers(2, 2, 8, 8)}, KVC_F16, 0, 16u << 20};
  ScopeHandle scope = host.make_scope("processes", {full_layers(2, 2, 8, 8)});
  std::vector<uint8_t> memory = std::vector<uint8_t>(2 * kSide);

  ProcessTest() {
    for (uint64_t i = 0; i < memory.size(); i++) memory[i] = static_cast<uint8_t>(stamp(3, i < kSide, i, 0, 0, 0));
  }
  std::string at(const char *name) const { return folder / name; }

  /// The exit status of the other program.
  int run(const std::string &file, const std::string &out) const {
    const pid_t child = fork();
    if (child == 0) {
      execl(KVC_RESTORE_PROGRAM, KVC_RESTORE_PROGRAM, file.c_str(), out.c_str(), std::to_string(kTokens).c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(ProcessTest, B15_a_second_process_restores_every_byte) {
  auto options = sized<kvc_seq_options>();
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, &options, &host.error), KVC_OK) << host.error.message;
  auto rows = sized<kvc_rows>();
  rows.layer_count = 2, rows.token_count = kTokens;
  rows.k.data = memory.data(), rows.v.data = memory.data() + kSide;
  rows.k.bytes = rows.v.bytes = kSide, rows.k.layer_stride = rows.v.layer_stride = kSide / 2;
  ASSERT_EQ(host.append(seq, ids(kTokens), {rows}), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_save(seq, at("a").c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(run(at("a"), at("out")), 0);
  std::ifstream in(at("out"), std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), bytes.begin(), bytes.end(), [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
}

TEST_F(ProcessTest, a_process_that_cannot_restore_says_so) {
  std::ofstream(at("bad")) << "KVCSAVE1 and then something else";
  EXPECT_EQ(run(at("bad"), at("out")), 1);
  EXPECT_EQ(run(at("none"), at("out")), 1);
}

}  // namespace
