#include "io/file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "faulty_files.h"
#include "memory_files.h"

namespace {

using namespace kvc_test;
using kvc::base::Error;
using kvc::io::File;

struct FileTest : testing::Test {
  MemoryFiles disk;
  FaultyFiles files{disk};
  Error error;
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
  FileTest() { disk.put("a", text); }

  /// The bytes [offset, +6) in three pieces, one of them empty.
  kvc_status read_pieces(File &file, std::string &to, uint64_t offset) {
    to.assign(6, '#');
    iovec pieces[] = {{to.data(), 2}, {to.data() + 2, 0}, {to.data() + 2, 4}};
    return file.read_at(pieces, offset, error);
  }
};

TEST_F(FileTest, every_byte_comes_however_few_a_call_moves_and_however_often_it_is_interrupted) {
  for (const auto how : {FaultyFiles::How::brief, FaultyFiles::How::signal})
    for (uint64_t nth = 1; nth < 8; nth++) {
      files.arm(nth, how, EIO, how == FaultyFiles::How::brief);
      File file(files, "disk/a");
      ASSERT_EQ(file.open(error), KVC_OK) << error.message;
      EXPECT_EQ(file.bytes(), 36u);
      std::string got;
      ASSERT_EQ(read_pieces(file, got, 10), KVC_OK) << error.message;
      EXPECT_EQ(got, "abcdef");
    }
  EXPECT_EQ(disk.open_count(), 0u);
}

TEST_F(FileTest, writes_are_whole_too) {
  for (const auto how : {FaultyFiles::How::brief, FaultyFiles::How::signal}) {
    files.arm(1, how, EIO, how == FaultyFiles::How::brief);
    int fd;
    ASSERT_EQ(kvc::io::uninterrupted([&] { return files.open_file(&fd, "disk/a"); }), 0);
    char first[] = "AB", second[] = "CDE";
    iovec pieces[] = {{first, 2}, {nullptr, 0}, {second, 3}};
    EXPECT_EQ(kvc::io::write_whole(files, fd, pieces, 34), 0);
    EXPECT_EQ(disk.content("a"), "0123456789abcdefghijklmnopqrstuvwxABCDE");
    files.arm(0, how);
    EXPECT_EQ(files.close(fd), 0);
  }
}

TEST_F(FileTest, a_file_that_ends_early_is_corrupt_and_one_that_fails_is_io_with_its_errno) {
  File file(files, "disk/a");
  ASSERT_EQ(file.open(error), KVC_OK) << error.message;
  std::string got;
  EXPECT_EQ(read_pieces(file, got, 31), KVC_ERR_CORRUPT);
  EXPECT_NE(std::string(error.message).find("disk/a"), std::string::npos) << error.message;
  files.arm(1, FaultyFiles::How::error, ENXIO);
  EXPECT_EQ(read_pieces(file, got, 0), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ENXIO);
}

TEST_F(FileTest, no_name_no_file_and_too_long_names_are_told_apart) {
  const auto status_of = [&](const char *path) {
    File file(files, path);
    return file.open(error);
  };
  EXPECT_EQ(status_of("disk/b"), KVC_ERR_NOT_FOUND);
  for (const char *path : {static_cast<const char *>(nullptr), "", "disk/", ".", "..", "disk/..", "/"}) EXPECT_EQ(status_of(path), KVC_ERR_ARGUMENT) << (path ? path : "NULL");
  EXPECT_EQ(status_of(("disk/" + std::string(256, 'n')).c_str()), KVC_ERR_ARGUMENT);
  EXPECT_EQ(status_of((std::string(4096, 'd') + "/n").c_str()), KVC_ERR_ARGUMENT);
}

}  // namespace
