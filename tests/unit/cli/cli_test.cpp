#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "../api/host.h"
#include "../folder.h"

/// The `kvc` program as an operator runs it: what it says, and its exit status.
namespace {

using namespace kvc_test;

struct Said {
  int status = -1;
  std::string text;
  bool has(const std::string &words) const { return text.find(words) != std::string::npos; }
};

Said kvc(const std::string &arguments) {
  FILE *const program = popen((KVC_PROGRAM " " + arguments + " 2>&1").c_str(), "r");
  Said said;
  for (int c; program && (c = std::fgetc(program)) != EOF;) said.text += static_cast<char>(c);
  const int status = program ? pclose(program) : -1;
  said.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

struct CliTest : testing::Test {
  Folder folder;
  std::string path = folder / "a.kvc";

  /// 40 tokens in chunks of 16, two layers: two sealed chunks and an open one.
  void save(uint8_t write_id = 0) {
    Host host{{full_layers(2, 1, 8, 8)}, KVC_F16, 16};
    auto options = sized<kvc_seq_options>();
    std::fill(std::begin(options.write_id), std::end(options.write_id), write_id);
    SeqHandle seq;
    ASSERT_EQ(kvc_seq_create(seq.out(), host.scope, &options, &host.error), KVC_OK) << host.error.message;
    std::vector<uint16_t> memory(2 * 40 * 8);
    for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<uint16_t>(i * 7);
    auto rows = sized<kvc_rows>();
    rows.layer_count = 2, rows.token_count = 40;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2, rows.k.layer_stride = rows.v.layer_stride = 40 * 16;
    ASSERT_EQ(host.append(seq, ids(50), {rows}), KVC_OK) << host.error.message;
    ASSERT_EQ(kvc_seq_save(seq, path.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  }
  void flip(std::streamoff at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x10));
  }
};

TEST_F(CliTest, info_says_what_a_build_has_and_what_a_file_holds) {
  const Said build = kvc("info");
  EXPECT_EQ(build.status, 0) << build.text;
  for (const char *words : {"features", "kernels", "base", "(in use)", "versions 1 to 3"}) EXPECT_TRUE(build.has(words)) << words << ": " << build.text;
  save();
  const Said file = kvc("info " + path);
  EXPECT_EQ(file.status, 0) << file.text;
  for (const char *words : {"version 1", "0..1: full, 1 heads, k 8 f16, v 8 f16", "tokens         40, ids of 50", "2 sealed (2 by name), 1 open; of 16 tokens", "private        no"})
    EXPECT_TRUE(file.has(words)) << words << ": " << file.text;
  EXPECT_TRUE(file.has("write ids      2, that of the first chunk ")) << "drawn ones: " << file.text;
  save(0xAB);
  const Said given = kvc("info " + path);
  EXPECT_TRUE(given.has("write id       abababababababababababababababab\n")) << given.text;
}

TEST_F(CliTest, verify_reads_every_page_and_names_the_first_that_is_bad) {
  save();
  const Said whole = kvc("verify " + path);
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_TRUE(whole.has("6 pages of 40 tokens")) << whole.text;
  // The second chunk begins at 8,192; behind a frame of 1,024 bytes comes its second layer, of which this is a byte of K.
  flip(8192 + 1024 + 512 + 3);
  flip(12288 + 512 + 3);  // and one of the open chunk behind it
  const Said bad = kvc("verify " + path);
  EXPECT_EQ(bad.status, 1) << bad.text;
  EXPECT_TRUE(bad.has("damaged: 2 of 6 pages")) << bad.text;
  EXPECT_TRUE(bad.has("chunk 1 (from token 16), layer 1: the sum of K")) << bad.text;
  EXPECT_EQ(kvc("info " + path).status, 0);  // its table is right
  flip(20);
  EXPECT_EQ(kvc("verify " + path).status, 1);
  EXPECT_EQ(kvc("info " + path).status, 1);
}

TEST_F(CliTest, a_file_that_is_not_there_or_is_none_of_ours_is_an_error_with_its_name) {
  for (const char *word : {"info ", "verify "}) {
    const Said none = kvc(word + path);
    EXPECT_EQ(none.status, 1);
    EXPECT_TRUE(none.has("KVC_ERR_NOT_FOUND") && none.has(path)) << none.text;
  }
  std::ofstream(path) << std::string(1000, 'x');
  EXPECT_TRUE(kvc("verify " + path).has("no save file"));
}

TEST_F(CliTest, selfcheck_compares_generated_rows_and_those_of_models) {
  const Said own = kvc("selfcheck --folder " + folder.path().string());
  EXPECT_EQ(own.status, 0) << own.text;
  EXPECT_TRUE(own.has("saved, and restored into another store") && own.has("all right")) << own.text;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const Said model = kvc("selfcheck --data " KVC_TEST_DATA "/smollm2.safetensors --folder " + folder.path().string());
  EXPECT_EQ(model.status, 0) << model.text;
  EXPECT_TRUE(model.has("512 tokens, 2 layers, 3 KV heads of 64")) << model.text;
}

TEST_F(CliTest, a_selfcheck_that_cannot_run_fails_by_name) {
  std::ofstream(path) << "this is no dump";
  const Said none = kvc("selfcheck --data " + path);
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(none.has("no safetensors file")) << none.text;
  EXPECT_EQ(kvc("selfcheck --folder " + folder.path().string() + "/none").status, 1);
}

TEST_F(CliTest, wrong_usage_is_refused_with_status_2_and_what_is_wrong) {
  for (const char *arguments : {"", "verify", "verify a b", "verify --all a", "info a b", "info --json a", "selfcheck a", "selfcheck --data", "selfcheck --model x", "frobnicate", "bench"}) {
    const Said said = kvc(arguments);
    EXPECT_EQ(said.status, 2) << arguments << ": " << said.text;
    EXPECT_FALSE(said.text.empty()) << arguments;
  }
  const Said help = kvc("--help");
  EXPECT_EQ(help.status, 0);
  for (const char *word : {"kvc info FILE", "kvc verify FILE", "kvc selfcheck", "kvc bench", "Exit status"}) EXPECT_TRUE(help.has(word)) << word;
}

}  // namespace
