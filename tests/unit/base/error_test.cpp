#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

namespace kvc::base {
namespace {

std::string message_of(const char *text) {
  Error error;
  EXPECT_EQ(fail(error, KVC_ERR_RANGE, "%s", text), KVC_ERR_RANGE);
  EXPECT_EQ(error.status, KVC_ERR_RANGE);
  return error.message;
}

/// The statuses as the public header spells them: what a host compiles against is the oracle.
std::map<int, std::string> statuses_of_the_header() {
  std::map<int, std::string> statuses;
  std::ifstream header(std::filesystem::path(KVC_TEST_DATA "/../../include/kvc/error.h").lexically_normal());
  const std::regex pattern(R"((KVC_OK|KVC_ERR_\w+)\s*=\s*(-?\d+))");
  for (std::string line; std::getline(header, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) statuses[std::stoi(match[2])] = match[1];
  }
  return statuses;
}

TEST(Error, FailReturnsTheStatusAndFormatsTheMessage) {
  Error error;
  error.system_error = 7;
  EXPECT_EQ(fail(error, KVC_ERR_SHAPE, "layer %u: the shape has %d", 40u, 32), KVC_ERR_SHAPE);
  EXPECT_STREQ(error.message, "layer 40: the shape has 32");
  EXPECT_EQ(error.system_error, 0);
}

TEST(Error, AMessageMayBeBuiltFromTheOneItReplaces) {
  Error error;
  EXPECT_EQ(fail(error, KVC_ERR_IO, "inner"), KVC_ERR_IO);
  EXPECT_EQ(fail(error, KVC_ERR_CORRUPT, "outer: %s", error.message), KVC_ERR_CORRUPT);
  EXPECT_STREQ(error.message, "outer: inner");
}

TEST(Error, AMessageOf239BytesFitsWholeAndALongerOneIsCut) {
  const std::string whole(239, 'x');
  EXPECT_EQ(message_of(whole.c_str()), whole);
  EXPECT_EQ(message_of((whole + "y").c_str()), whole);
  EXPECT_EQ(message_of(std::string(100000, 'x').c_str()), whole);
}

TEST(Error, ACutNeverSplitsACharacter) {
  const std::string characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  for (const std::string &character : characters) {
    for (size_t head = 230; head < 242; ++head) {
      const std::string message = message_of((std::string(head, 'x') + character + character + character + character + character).c_str());
      ASSERT_LE(message.size(), 239u);
      ASSERT_GT(message.size() + character.size(), 239u) << "cut too early";
      if (head < 239) {
        ASSERT_EQ((message.size() - head) % character.size(), 0u) << message;
      }
    }
  }
}

TEST(Error, OfATextAsMuchFitsInAFieldAsEndsWithAWholeCharacter) {
  const char *const text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // of 1, 2, 3, 4 and 1 bytes
  const size_t fits[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t field = 1; field <= 13; field++) EXPECT_EQ(fitting_bytes(text, field), fits[field - 1]) << field;
  EXPECT_EQ(fitting_bytes("", 1), 0u);
}

TEST(Error, AMessageIsAlwaysOneLine) {
  EXPECT_EQ(message_of("a\nb\r\nc\td\x1b[31m\x7f"), "a b  c d [31m ");
  EXPECT_EQ(message_of("\xC2\x85|\xE2\x80\xA8|\xE2\x80\xA9|\xC2\x9B"), "?|?|?|?");
}

TEST(Error, WhatIsNotUtf8IsReplacedByteForByte) {
  EXPECT_EQ(message_of("a\xFFz"), "a?z");
  EXPECT_EQ(message_of("\xC0\xAF"), "??") << "overlong";
  EXPECT_EQ(message_of("\xE0\x80\xAF"), "???") << "overlong";
  EXPECT_EQ(message_of("\xED\xA0\x80"), "???") << "surrogate";
  EXPECT_EQ(message_of("\xF4\x90\x80\x80"), "????") << "past U+10FFFF";
  EXPECT_EQ(message_of("x\xE2\x82"), "x??") << "truncated";
  EXPECT_EQ(message_of("\xE2\x82\xAC \xF4\x8F\xBF\xBF"), "\xE2\x82\xAC \xF4\x8F\xBF\xBF") << "well-formed stays";
}

TEST(Error, ASystemErrorKeepsItsTextEvenBehindALongMessage) {
  Error error;
  EXPECT_EQ(fail_system(error, KVC_ERR_IO, ENOSPC, "write of %d bytes", 5), KVC_ERR_IO);
  EXPECT_STREQ(error.message, "write of 5 bytes: No space left on device");
  EXPECT_EQ(error.system_error, ENOSPC);
  EXPECT_EQ(fail_system(error, KVC_ERR_IO, ENOSPC, "%s", std::string(500, 'x').c_str()), KVC_ERR_IO);
  const std::string message = error.message;
  EXPECT_EQ(message.size(), 239u);
  EXPECT_EQ(message.substr(message.size() - 27), "xx: No space left on device");
}

TEST(Error, EveryStatusOfTheHeaderHasItsName) {
  const auto statuses = statuses_of_the_header();
  ASSERT_GE(statuses.size(), 26u);
  for (int status = -200; status <= 200; ++status) {
    const auto known = statuses.find(status);
    EXPECT_STREQ(status_name(status), known == statuses.end() ? "KVC_STATUS_UNKNOWN" : known->second.c_str());
  }
  EXPECT_STREQ(status_name(INT32_MIN), "KVC_STATUS_UNKNOWN");
}

TEST(Error, RetryFollowsTheFamilyOfTheStatus) {
  for (const auto &[status, name] : statuses_of_the_header()) {
    uint32_t want = KVC_RETRY_NEVER;
    const int family = -status / 10;
    if (family == 3) want = KVC_RETRY_RECOMPUTE;
    if (family == 4 || family == 5 || family == 7) want = KVC_RETRY_LATER;
    if (status == KVC_ERR_CANCELLED) want = KVC_RETRY_NOW;
    if (status == KVC_ERR_DENIED) want = KVC_RETRY_NEVER;
    EXPECT_EQ(retry_of(status), want) << name;
  }
  EXPECT_EQ(retry_of(-39), static_cast<uint32_t>(KVC_RETRY_NEVER)) << "none of ours";
}

TEST(Error, OneThatCanNeverSucceedSaysSoUntilTheNextFailure) {
  Error error;
  EXPECT_EQ(fail_never(error, KVC_ERR_FULL, "%d bytes", 5), KVC_ERR_FULL);
  EXPECT_STREQ(error.message, "5 bytes");
  EXPECT_EQ(retry_of(error.status, error), static_cast<uint32_t>(KVC_RETRY_NEVER));
  EXPECT_EQ(fail(error, KVC_ERR_FULL, "%d bytes", 4), KVC_ERR_FULL);
  EXPECT_EQ(retry_of(error.status, error), static_cast<uint32_t>(KVC_RETRY_LATER));
}

kvc_status stops_at_the_first_failure(Error &error, int &reached) {
  KVC_TRY(KVC_OK);
  reached = 1;
  KVC_TRY(fail(error, KVC_ERR_BUSY, "busy"));
  reached = 2;
  return KVC_OK;
}

TEST(Error, TryReturnsTheFirstFailure) {
  Error error;
  int reached = 0;
  EXPECT_EQ(stops_at_the_first_failure(error, reached), KVC_ERR_BUSY);
  EXPECT_EQ(reached, 1);
}

}  // namespace
}  // namespace kvc::base
