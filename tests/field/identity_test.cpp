// What may not be taken for something else: names of scopes, shapes and objects.
#include <dirent.h>

#include <set>

#include "field_host.h"

namespace kvc::field {
namespace {

struct Fields {
  std::string tenant, model, revision, adapter, salt;
};

kvc_scope_options options_of(const Fields &fields) {
  kvc_scope_options names{};
  names.tenant = fields.tenant.c_str(), names.model = fields.model.c_str(), names.revision = fields.revision.c_str(), names.adapter = fields.adapter.c_str();
  names.salt = fields.salt.data(), names.salt_size = fields.salt.size();
  return names;
}

/// Every assignment of nothing, X and XX: all pairs of fields, and all points at which a text may be split between two of them.
std::vector<Fields> assignments() {
  const std::vector<std::string> values = {"", "X", "XX"};
  std::vector<Fields> all;
  for (const std::string &tenant : values)
    for (const char *model : {"X", "XX"})
      for (const std::string &revision : values)
        for (const std::string &adapter : values)
          for (const std::string &salt : values) all.push_back({tenant, model, revision, adapter, salt});
  return all;
}

TEST(FieldReports, B01_no_two_assignments_of_identity_fields_see_each_others_prefix_or_object) {
  FieldHost host(16u << 20);
  const std::vector<int32_t> tokens = ids(64);
  const std::vector<Fields> all = assignments();
  std::vector<ScopeHandle> scopes;
  for (size_t i = 0; i < all.size(); i++) {
    scopes.push_back(host.make_scope(options_of(all[i])));
    uint64_t length = 99;
    host.match_in(scopes.back(), tokens, &length);
    ASSERT_EQ(length, 0u) << "scope " << i << " found what another wrote";
    ASSERT_FALSE(host.exists(scopes.back(), "key")) << i;
    const SeqHandle seq = host.create_in(scopes.back());
    ASSERT_EQ(host.append(seq, tokens, 0, 64, i + 1), KVC_OK) << host.error.message;
    ASSERT_EQ(host.put(scopes.back(), "key", "value of " + std::to_string(i)), KVC_OK) << host.error.message;
  }
  for (size_t i = 0; i < all.size(); i++) {
    uint64_t length = 0;
    const SeqHandle seq = host.match_in(scopes[i], tokens, &length);
    ASSERT_EQ(length, 64u) << i;
    ASSERT_EQ(host.read(seq, 0, 64, i + 1), "") << i;
    ASSERT_EQ(host.get(scopes[i], "key"), "value of " + std::to_string(i));
  }
}

TEST(FieldReports, B01_an_empty_name_is_an_absent_one_and_nothing_else_is) {
  FieldHost host;
  const ScopeHandle absent = host.make_scope({});
  kvc_scope_options empty{};
  empty.tenant = empty.revision = empty.adapter = "", empty.salt = "";
  ASSERT_EQ(host.put(absent, "key", "1"), KVC_OK);
  EXPECT_TRUE(host.exists(host.make_scope(empty), "key"));
  for (const auto name : {&kvc_scope_options::tenant, &kvc_scope_options::revision, &kvc_scope_options::adapter}) {
    kvc_scope_options blank{};
    blank.*name = " ";
    EXPECT_FALSE(host.exists(host.make_scope(blank), "key"));
  }
  kvc_scope_options zero{};
  zero.salt = "", zero.salt_size = 1;
  EXPECT_FALSE(host.exists(host.make_scope(zero), "key")) << "a salt of one zero byte";
}

TEST(FieldReports, B03_shapes_of_equal_bytes_and_other_revisions_share_nothing) {
  FieldHost host(16u << 20);
  struct Case {
    const char *what, *revision;
    uint32_t dtype, chunk, rope;
    kvc_layer layer;
  };
  // 64 bytes a token and side in all of them.
  const std::vector<Case> cases = {
      {"f16", "1", KVC_F16, 16, 0, full_layers(1, 2, 16, 16)},
      {"bf16", "1", KVC_BF16, 16, 0, full_layers(1, 2, 16, 16)},
      {"f32", "1", KVC_F32, 16, 0, full_layers(1, 2, 8, 8)},
      {"f8", "1", KVC_F8_E4M3, 16, 0, full_layers(1, 2, 32, 32)},
      {"f16, values as bf16", "1", KVC_F16, 16, 0, full_layers(1, 2, 16, 16, 0, KVC_BF16)},
      {"f16, heads cut otherwise", "1", KVC_F16, 16, 0, full_layers(1, 4, 8, 8)},
      {"f16, two layers of half the width", "1", KVC_F16, 16, 0, full_layers(2, 2, 8, 8)},
      {"f16, other chunks", "1", KVC_F16, 32, 0, full_layers(1, 2, 16, 16)},
      {"f16, rotated in pairs", "1", KVC_F16, 16, KVC_ROPE_PAIRS, full_layers(1, 2, 16, 16)},
      {"f16, other weights", "2", KVC_F16, 16, 0, full_layers(1, 2, 16, 16)},
  };
  const std::vector<int32_t> tokens = ids(64);
  std::vector<uint8_t> bytes(64 * 64, 0x11), got(bytes.size());
  const auto rows_of = [](std::vector<uint8_t> &memory, const kvc_layer &layer) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = layer.count, rows.token_count = 64;
    rows.k.data = memory.data(), rows.k.bytes = memory.size(), rows.k.layer_stride = memory.size() / layer.count;
    rows.v = rows.k;
    return rows;
  };
  std::vector<ScopeHandle> scopes;
  for (const Case &c : cases) {
    auto shape = sized<kvc_shape>();
    shape.dtype = c.dtype, shape.chunk_tokens = c.chunk, shape.rope = c.rope, shape.layers = &c.layer, shape.layer_runs = 1;
    kvc_scope_options names{};
    names.revision = c.revision, names.shape = &shape;
    scopes.push_back(host.make_scope(names));
    uint64_t length = 99;
    auto info = sized<kvc_match_info>();
    auto options = sized<kvc_seq_options>();
    options.flags = KVC_SEQ_PEEK;
    ASSERT_EQ(kvc_match(nullptr, &info, scopes.back(), tokens.data(), tokens.size(), &options, nullptr, &host.error), KVC_OK) << host.error.message;
    EXPECT_EQ(info.tokens, 0u) << c.what << ": a look finds what another wrote";
    host.match_in(scopes.back(), tokens, &length);
    EXPECT_EQ(length, 0u) << c.what << ": found what another wrote";
    EXPECT_FALSE(host.exists(scopes.back(), "key")) << c.what;
    const SeqHandle seq = host.create_in(scopes.back());
    const auto mark = static_cast<uint8_t>(scopes.size());
    std::fill(bytes.begin(), bytes.end(), mark);
    const kvc_rows rows = rows_of(bytes, c.layer);
    ASSERT_EQ(kvc_append(seq, tokens.data(), 64, &rows, 1, nullptr, &host.error), KVC_OK) << c.what << ": " << host.error.message;
    ASSERT_EQ(host.put(scopes.back(), "key", c.what), KVC_OK);
  }
  for (size_t i = 0; i < cases.size(); i++) {
    uint64_t length = 0;
    const SeqHandle seq = host.match_in(scopes[i], tokens, &length);
    ASSERT_EQ(length, 64u) << cases[i].what;
    std::fill(got.begin(), got.end(), 0xA5);
    kvc_rows rows = rows_of(got, cases[i].layer);
    rows.v.data = nullptr;
    ASSERT_EQ(kvc_gather(nullptr, seq, &rows, 1, nullptr, &host.error), KVC_OK) << cases[i].what << ": " << host.error.message;
    EXPECT_EQ(got, std::vector<uint8_t>(got.size(), static_cast<uint8_t>(i + 1))) << cases[i].what;
    EXPECT_EQ(host.get(scopes[i], "key"), cases[i].what);
  }
}

TEST(FieldReports, B06_of_twenty_thousand_other_prefixes_none_is_taken_for_a_stored_one) {
  FieldHost host(32u << 20);
  Random random(6);
  std::set<std::vector<int32_t>> stored;
  // Few values a token: prefixes that differ in one place, and that begin alike, are many.
  const auto draw = [&] {
    std::vector<int32_t> tokens(kChunk);
    for (int32_t &token : tokens) token = static_cast<int32_t>(random() % 2);
    return tokens;
  };
  while (stored.size() < 1000) {
    const std::vector<int32_t> tokens = draw();
    if (!stored.insert(tokens).second) continue;
    host.stored(tokens, 1);
  }
  uint64_t found = 0;
  for (int i = 0; i < 20000; i++) {
    const std::vector<int32_t> tokens = draw();
    uint64_t length = 99;
    host.match(tokens, &length);
    ASSERT_EQ(length, stored.contains(tokens) ? kChunk : 0);
    found += length != 0;
  }
  EXPECT_GT(found, 0u);
}

std::set<std::string> files_of(const char *folder) {
  std::set<std::string> names;
  DIR *open = opendir(folder);
  while (const dirent *entry = open ? readdir(open) : nullptr) names.insert(entry->d_name);
  if (open) closedir(open);
  return names;
}

TEST(FieldReports, B138_names_of_callers_are_bytes_and_never_paths) {
  FieldHost host;
  const std::vector<std::string> names = {"../../x", "/etc/x", "..", ".", "x", "x/", "con", "a\nb", "a\rb", std::string("x\0", 2), std::string("x\0y", 3), std::string(64, '/'), "\xff\xfe", "%2e%2e/x", "~"};
  const std::set<std::string> here = files_of("."), above = files_of("..");
  for (const std::string &name : names) {
    EXPECT_FALSE(host.exists(host.scope, name)) << name << " is taken for another";
    ASSERT_EQ(host.put(host.scope, name, "value of " + name), KVC_OK) << host.error.message;
    EXPECT_EQ(std::string(host.error.message).find('\n'), std::string::npos);
  }
  for (const std::string &name : names) EXPECT_EQ(host.get(host.scope, name), "value of " + name);
  std::vector<ScopeHandle> scopes;
  for (const std::string &name : names) {
    if (name.find('\0') != std::string::npos) continue;  // names of scopes end there
    for (int field = 0; field < 2; field++) {
      kvc_scope_options options{};
      (field ? options.model : options.tenant) = name.c_str();
      scopes.push_back(host.make_scope(options));
      EXPECT_FALSE(host.exists(scopes.back(), "x")) << name;
      ASSERT_EQ(host.put(scopes.back(), "x", name), KVC_OK);
    }
  }
  for (const std::string &name : names) {
    kvc_object object{};
    object.key = name.data(), object.key_size = name.size();
    EXPECT_EQ(kvc_object_delete(nullptr, host.scope, &object, 1, nullptr, &host.error), KVC_OK) << name;
  }
  EXPECT_EQ(host.put(host.scope, std::string(65, 'k'), "value"), KVC_ERR_ARGUMENT) << "longer than a name may be";
  EXPECT_NE(std::string(host.error.message).find("65"), std::string::npos) << host.error.message;
  EXPECT_EQ(files_of("."), here);
  EXPECT_EQ(files_of(".."), above);
}

TEST(FieldReports, B139_a_prober_of_another_tenant_or_salt_sees_the_same_of_right_and_wrong_guesses) {
  FieldHost host;
  const auto scope_of = [&](const char *tenant, const char *salt) {
    kvc_scope_options names{};
    names.tenant = tenant, names.salt = salt, names.salt_size = strlen(salt);
    return host.make_scope(names);
  };
  const ScopeHandle owner = scope_of("owner", "secret");
  const std::vector<int32_t> right = ids(64);
  const SeqHandle seq = host.create_in(owner);
  ASSERT_EQ(host.append(seq, right, 0, 64, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.put(owner, "key", "value"), KVC_OK);
  const ScopeHandle probers[] = {scope_of("prober", "secret"), scope_of("owner", ""), scope_of("owner", "secrez")};
  for (const ScopeHandle &prober : probers) {
    std::set<std::string> seen;
    for (int32_t guess = 0; guess < 50; guess++) {
      const std::vector<int32_t> tokens = ids(64, guess);  // the first is right
      const kvc_metrics before = host.metrics();
      auto match = sized<kvc_match_info>();
      SeqHandle out;
      const kvc_status status = kvc_match(out.out(), &match, prober, tokens.data(), tokens.size(), nullptr, nullptr, &host.error);
      const kvc_metrics after = host.metrics();
      std::string saw(reinterpret_cast<const char *>(&match), sizeof match);
      for (const uint64_t number : {static_cast<uint64_t>(status), after.hit_tokens - before.hit_tokens, after.match_tokens - before.match_tokens,
                                    after.hit_bytes_host - before.hit_bytes_host, static_cast<uint64_t>(host.exists(prober, guess ? "other" : "key"))})
        saw += std::to_string(number) + " ";
      seen.insert(saw);
    }
    EXPECT_EQ(seen.size(), 1u);
  }
}

}  // namespace
}  // namespace kvc::field
