#include "seq/identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <set>
#include <string>
#include <vector>

#include "golden/vectors.h"

namespace {

using kvc::base::Error;
using kvc::base::Sha256;
using kvc::seq::ChunkNamer;
using kvc::seq::Extras;
using kvc::seq::Name;
using kvc::seq::ScopeIdentity;

std::string text(const golden::Bytes &bytes) { return std::string(bytes.begin(), bytes.end()); }

std::vector<int32_t> tokens_of(const golden::Bytes &bytes) {
  std::vector<int32_t> tokens(bytes.size() / 4);
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * 4);
  return tokens;
}

Name filled(uint8_t value) {
  Name name;
  name.fill(value);
  return name;
}

TEST(Sha256, published_vectors_hold_in_one_piece_and_in_many) {
  const std::string million(1000000, 'a');
  const std::vector<std::pair<std::string, std::string>> vectors = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  Sha256 hash;
  for (const auto &[input, expected] : vectors) {
    EXPECT_EQ(golden::hex(hash.digest(input.data(), input.size())), expected);
    hash.begin();
    hash.update("forgotten", 9);
    hash.begin();
    for (size_t at = 0; at < input.size(); at += 777) hash.update(input.data() + at, std::min<size_t>(777, input.size() - at));
    EXPECT_EQ(golden::hex(hash.finish()), expected);
  }
}

TEST(Names, golden_scopes_hold) {
  for (const golden::Record &record : golden::read("scopes.txt")) {
    const std::string tenant = text(record.bytes("tenant")), model = text(record.bytes("model")), revision = text(record.bytes("revision"));
    const std::string adapter = text(record.bytes("adapter")), salt = text(record.bytes("salt"));
    EXPECT_EQ(golden::hex(kvc::seq::scope_name({tenant, model, revision, adapter, salt}, record.array<32>("shape"))), record.text("scope"));
  }
}

TEST(Names, golden_chains_hold) {
  std::pmr::unsynchronized_pool_resource memory;
  ChunkNamer namer;
  for (const golden::Record &record : golden::read("chunks.txt")) {
    const std::vector<int32_t> tokens = tokens_of(record.bytes("tokens"));
    const uint32_t chunk_tokens = static_cast<uint32_t>(record.number("chunk_tokens"));
    std::vector<kvc_extra> given;
    std::vector<golden::Bytes> data;
    data.reserve(record.list("extra").size());
    for (const std::string &line : record.list("extra")) {
      const size_t first = line.find(' '), second = line.find(' ', first + 1);
      data.push_back(golden::unhex(line.substr(second + 1)));
      given.push_back({std::stoull(line), std::stoull(line.substr(first + 1)), data.back().data(), data.back().size()});
    }
    Extras extras(&memory);
    Error error;
    ASSERT_EQ(extras.add(given.data(), given.size(), error), KVC_OK) << error.message;
    const std::vector<std::string> names = record.list("name");
    ASSERT_EQ(names.size(), 1 + tokens.size() / chunk_tokens);
    Name name = kvc::seq::first_chunk_parent(record.array<32>("scope"), record.number("first_position"));
    EXPECT_EQ(golden::hex(name), names[0]);
    for (size_t i = 1; i < names.size(); ++i) {
      name = namer.next(name, tokens.data() + (i - 1) * chunk_tokens, chunk_tokens, (i - 1) * chunk_tokens, extras.all());
      EXPECT_EQ(golden::hex(name), names[i]) << "chunk " << i;
    }
  }
}

TEST(Names, golden_objects_hold) {
  Sha256 hash;
  for (const golden::Record &record : golden::read("objects.txt")) {
    const std::string key = text(record.bytes("key"));
    EXPECT_EQ(golden::hex(kvc::seq::object_name(hash, record.array<32>("scope"), key)), record.text("object"));
  }
}

TEST(Names, B01_no_two_assignments_of_fields_share_a_scope) {
  // Every way to lay a few strings, the empty one among them, into the five fields: the names are as many as the assignments.
  const std::string_view words[] = {"", "a", "ab", "b"};
  std::set<Name> names;
  size_t assignments = 0;
  for (int code = 0; code < 1024; ++code, ++assignments) {
    const auto word = [&](int field) { return words[code >> (2 * field) & 3]; };
    names.insert(kvc::seq::scope_name({word(0), word(1), word(2), word(3), word(4)}, filled(0)));
  }
  EXPECT_EQ(names.size(), assignments);
}

TEST(Names, B01_a_field_cannot_imitate_the_framing_of_its_neighbour) {
  const std::string imitation("m\x03\x01\0\0\0\0\0\0\0r", 11);  // "m", then what tag, length and value of revision "r" look like
  EXPECT_NE(kvc::seq::scope_name({"", imitation, "", "", ""}, filled(0)), kvc::seq::scope_name({"", "m", "r", "", ""}, filled(0)));
  EXPECT_NE(kvc::seq::scope_name({"", "m", "", "", ""}, filled(0)), kvc::seq::scope_name({"", "m", "", "", ""}, filled(1)));
}

TEST(Names, kinds_of_names_stay_apart) {
  const Name scope = filled(7);
  const int32_t zeros[16] = {};
  Sha256 hash;
  const std::set<Name> names = {scope,
                                kvc::seq::first_chunk_parent(scope, 1),
                                kvc::seq::object_name(hash, scope, ""),
                                kvc::seq::object_name(hash, scope, "kvc chunk 1"),
                                ChunkNamer().next(scope, zeros, 16, 0, {})};
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(kvc::seq::first_chunk_parent(scope, 0), scope);
}

TEST(Names, B06_every_bit_of_parent_tokens_and_position_changes_the_whole_name) {
  ChunkNamer namer;
  std::vector<int32_t> tokens(64, 17);
  const Name parent = filled(3);
  std::vector<Name> names = {namer.next(parent, tokens.data(), 64, 0, {})};
  for (size_t bit = 0; bit < 64 * 32; ++bit) {
    tokens[bit / 32] ^= static_cast<int32_t>(1u << bit % 32);
    names.push_back(namer.next(parent, tokens.data(), 64, 0, {}));
    tokens[bit / 32] ^= static_cast<int32_t>(1u << bit % 32);
  }
  for (size_t bit = 0; bit < 256; ++bit) {
    Name other = parent;
    other[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    names.push_back(namer.next(other, tokens.data(), 64, 0, {}));
  }
  for (size_t bit = 0; bit < 64; ++bit) names.push_back(kvc::seq::first_chunk_parent(parent, uint64_t{1} << bit));
  // Not only different: every 8-byte part differs, so a table keyed by a part of the name sees no pattern either.
  for (size_t part = 0; part < 4; ++part) {
    std::set<uint64_t> parts;
    for (const Name &name : names) {
      uint64_t value;
      std::memcpy(&value, name.data() + 8 * part, 8);
      parts.insert(value);
    }
    EXPECT_EQ(parts.size(), names.size()) << "part " << part;
  }
}

TEST(Names, a_short_chunk_is_no_prefix_of_a_longer_one) {
  ChunkNamer namer;
  const std::vector<int32_t> zeros(256, 0);
  std::set<Name> names;
  for (uint32_t n = 1; n <= 256; ++n) names.insert(namer.next(filled(0), zeros.data(), n, 0, {}));
  EXPECT_EQ(names.size(), 256u);
}

TEST(Names, B07_another_process_language_and_instruction_set_make_the_same_names) {
  // The golden tests once more in a process with another locale, another hash seed and libcrypto without its SHA instructions or AVX.
  // The vectors themselves were written by another language.
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (const char *cpu : {"OPENSSL_ia32cap=:~0x20000000", "OPENSSL_ia32cap=~0x1000000000000000:~0x20000128"}) {
    const pid_t child = fork();
    if (child == 0) {
      char filter[] = "--gtest_filter=Names.golden_*:Shape.golden_*", brief[] = "--gtest_brief=1";
      char locale[] = "LC_ALL=tr_TR.UTF-8", seed[] = "PYTHONHASHSEED=1";
      char *arguments[] = {self, filter, brief, nullptr};
      char *environment[] = {const_cast<char *>(cpu), locale, seed, nullptr};
      execve(self, arguments, environment);
      _exit(127);
    }
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << cpu << ": " << status;
  }
}

}  // namespace
