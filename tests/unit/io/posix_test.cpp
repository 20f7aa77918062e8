#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "../folder.h"
#include "io/replacement.h"

namespace {

using kvc::base::Error;
using kvc::io::File;
using kvc::io::posix;
using kvc::io::Replacement;

struct PosixTest : testing::Test {
  kvc_test::Folder folder;
  Error error;
  std::string at(const char *name) const { return folder / name; }
  static std::string content(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t entries() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {})); }
  kvc_status replace(const std::string &path, std::string text) {
    Replacement file(posix(), path.c_str());
    KVC_TRY(file.begin(text.size(), error));
    iovec pieces[] = {{text.data(), text.size() / 2}, {text.data() + text.size() / 2, text.size() - text.size() / 2}};
    KVC_TRY(file.write_at(pieces, 0, error));
    return file.commit(error);
  }
};

TEST_F(PosixTest, what_is_put_in_place_is_read_back_and_nothing_is_left_beside) {
  ASSERT_EQ(replace(at("a"), "first"), KVC_OK) << error.message;
  EXPECT_EQ(content(at("a")), "first");
  ASSERT_EQ(replace(at("a"), "the second, which is longer"), KVC_OK) << error.message;
  EXPECT_EQ(content(at("a")), "the second, which is longer");
  ASSERT_EQ(replace(at("a"), "3"), KVC_OK) << error.message;
  EXPECT_EQ(content(at("a")), "3");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(PosixTest, only_the_owner_reads_it_and_no_program_inherits_it) {
  ASSERT_EQ(replace(at("a"), "x"), KVC_OK) << error.message;
  struct stat status;
  ASSERT_EQ(stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  int fd;
  ASSERT_EQ(posix().open_file(&fd, at("a").c_str()), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  posix().close(fd);
  ASSERT_EQ(posix().open_directory(&fd, folder.path().c_str()), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  posix().close(fd);
}

TEST_F(PosixTest, what_is_given_up_leaves_the_old_file_and_nothing_beside) {
  ASSERT_EQ(replace(at("a"), "old"), KVC_OK) << error.message;
  {
    Replacement file(posix(), at("a").c_str());
    const std::string path = at("a");
    Replacement given_up(posix(), path.c_str());
    ASSERT_EQ(given_up.begin(1 << 20, error), KVC_OK) << error.message;
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(content(at("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(PosixTest, B138_links_folders_and_pipes_are_neither_read_nor_replaced) {
  ASSERT_EQ(replace(at("a"), "old"), KVC_OK) << error.message;
  ASSERT_EQ(symlink(at("a").c_str(), at("link").c_str()), 0);
  ASSERT_EQ(mkdir(at("folder").c_str(), 0700), 0);
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (const char *name : {"link", "folder", "pipe"}) {
    const std::string path = at(name);
    EXPECT_EQ(replace(path, "new"), KVC_ERR_ARGUMENT) << name;
    File file(posix(), path.c_str());
    EXPECT_EQ(file.open(error), KVC_ERR_ARGUMENT) << name << ": " << error.message;
  }
  EXPECT_EQ(content(at("a")), "old");
  EXPECT_EQ(entries(), 4u);
}

TEST_F(PosixTest, a_folder_that_is_not_there_is_named_with_its_errno) {
  EXPECT_EQ(replace(at("none/a"), "x"), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ENOENT);
  EXPECT_NE(std::string(error.message).find("none/a"), std::string::npos) << error.message;
}

}  // namespace
