#include <functional>

#include "host.h"

/// Wrong arguments of every other call: what is said, and that nothing came of it.
namespace {

using namespace kvc_test;

struct CallsTest : testing::Test {
  Host host{{full_layers(2, 2, 8, 8)}, KVC_F16, 16};
  SeqHandle seq = host.create();
  std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 14);
  std::string before;

  void SetUp() override {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 2, rows.token_count = 20;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size(),
    rows.k.layer_stride = rows.v.layer_stride = 2048;
    ASSERT_EQ(host.append(seq, ids(30), {rows}), KVC_OK) << host.error.message;
    before = state();
  }
  void TearDown() override { EXPECT_EQ(state(), before); }
  std::string state() {
    auto i = sized<kvc_store_info>();
    auto s = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_store_get_info(&i, host.store, nullptr), KVC_OK);
    EXPECT_EQ(kvc_seq_get_info(&s, seq, nullptr), KVC_OK);
    std::string out;
    for (const uint64_t n :
         {i.memory_used, i.memory_pinned, i.seq_count, i.lease_count, i.chunk_count, i.object_count, s.tokens, s.tokens_given})
      out += std::to_string(n) + " ";
    return out;
  }
  void expect(kvc_status got, kvc_status status, std::vector<const char *> words) {
    const std::string text = host.error.text();
    EXPECT_EQ(got, status) << text;
    EXPECT_EQ(host.error.status, status);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    for (const char *word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in '" << text << "'";
    host.error = ErrorText();
  }
};

kvc_status open_with(const char *uri, const std::function<void(kvc_store_options &)> &set, kvc_error *error) {
  auto options = sized<kvc_store_options>();
  options.memory_bytes = 1 << 20;
  set(options);
  kvc_store *out = reinterpret_cast<kvc_store *>(1);
  const kvc_status status = kvc_open(&out, uri, &options, error);
  if (status == KVC_OK) {
    EXPECT_EQ(kvc_close(out, nullptr), KVC_OK);
  } else {
    EXPECT_EQ(out, nullptr);
  }
  return status;
}

TEST_F(CallsTest, B109_opening_with_bad_arguments_names_the_value_and_the_rule) {
  const auto nothing = [](kvc_store_options &) {};
  expect(kvc_open(nullptr, "mem:", nullptr, &host.error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect(open_with(nullptr, nothing, &host.error), KVC_ERR_ARGUMENT, {"uri is NULL"});
  expect(open_with("", nothing, &host.error), KVC_ERR_ARGUMENT, {"uri \"\""});
  expect(open_with("mem", nothing, &host.error), KVC_ERR_ARGUMENT, {"uri \"mem\""});
  expect(open_with("mem:x", nothing, &host.error), KVC_ERR_ARGUMENT, {"uri \"mem:x\""});
  expect(open_with("file:cache", nothing, &host.error), KVC_ERR_UNSUPPORTED, {"file:cache"});
  expect(open_with("kvc://a:1", nothing, &host.error), KVC_ERR_UNSUPPORTED, {"kvc://a:1"});
  expect(open_with(std::string(10000, 'x').c_str(), nothing, &host.error), KVC_ERR_ARGUMENT, {"xxxx"});
  expect(open_with("mem:", [](kvc_store_options &o) { o.flags = 1u << 31; }, &host.error), KVC_ERR_TOO_NEW, {"0x80000000"});
  const std::vector<std::pair<uint32_t, const char *>> unbuilt{
      {KVC_OPEN_CREATE, "KVC_OPEN_CREATE"}, {KVC_OPEN_READ_ONLY, "KVC_OPEN_READ_ONLY"}, {KVC_OPEN_REQUIRE, "KVC_OPEN_REQUIRE"}, {KVC_OPEN_SECURE, "KVC_OPEN_SECURE"}};
  for (const auto &[flag, name] : unbuilt)
    expect(open_with("mem:", [&, bit = flag](kvc_store_options &o) { o.flags = bit | KVC_OPEN_ZERO; }, &host.error), KVC_ERR_UNSUPPORTED, {"flags 0x", name});
  expect(open_with("mem:", [](kvc_store_options &o) { o.memory_bytes = UINT64_MAX; }, &host.error), KVC_ERR_ARGUMENT, {"memory_bytes 18446744073709551615"});
  expect(open_with("mem:", [](kvc_store_options &o) { o.seq_max = (1u << 20) + 1; }, &host.error), KVC_ERR_ARGUMENT, {"seq_max 1048577"});
  expect(open_with("mem:", [](kvc_store_options &o) { o.view_max = (1u << 20) + 1; }, &host.error), KVC_ERR_ARGUMENT, {"view_max 1048577"});
  expect(open_with("mem:", [](kvc_store_options &o) { o.queue_max = (1u << 20) + 1; }, &host.error), KVC_ERR_ARGUMENT, {"queue_max 1048577"});
  expect(open_with("mem:", [](kvc_store_options &o) { o.worker_count = 1025; }, &host.error), KVC_ERR_ARGUMENT, {"worker_count 1025"});
  const std::vector<std::pair<const char *, std::function<void(kvc_store_options &)>>> later{
      {"nvme_bytes", [](kvc_store_options &o) { o.nvme_bytes = 1; }},
      {"device_bytes", [](kvc_store_options &o) { o.device_bytes = 1; }},
      {"connect_timeout_us", [](kvc_store_options &o) { o.connect_timeout_us = 1; }},
      {"directory", [](kvc_store_options &o) { o.directory = "d"; }},
      {"tenant", [](kvc_store_options &o) { o.tenant = "t"; }},
      {"key_file", [](kvc_store_options &o) { o.key_file = "k"; }},
      {"certificate_file", [](kvc_store_options &o) { o.certificate_file = "c"; }},
      {"authority_file", [](kvc_store_options &o) { o.authority_file = "a"; }},
      {"providers", [](kvc_store_options &o) { o.providers = "p"; }},
      {"copies", [](kvc_store_options &o) { o.copies = 1; }},
      {"copies_acked", [](kvc_store_options &o) { o.copies_acked = 1; }},
      {"precision",
       [](kvc_store_options &o) {
         static const auto p = sized<kvc_precision>();
         o.precision = &p;
       }},
      {"resident_summary", [](kvc_store_options &o) { o.resident_summary = 1; }},
  };
  for (const auto &[name, set] : later) expect(open_with("mem:", set, &host.error), KVC_ERR_UNSUPPORTED, {name});
  expect(open_with("mem:", [](kvc_store_options &o) { o.log_level = 5; }, &host.error), KVC_ERR_ARGUMENT, {"log_level 5"});
  EXPECT_EQ(open_with("mem:", nothing, &host.error), KVC_OK);
}

TEST_F(CallsTest, B109_a_scope_of_bad_arguments_is_refused_by_value_and_rule) {
  const kvc_layer layer = full_layers(1, 1, 8, 8);
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  const auto with = [&](const std::function<void(kvc_scope_options &)> &set) {
    auto o = sized<kvc_scope_options>();
    o.model = "m", o.shape = &shape;
    set(o);
    kvc_scope *out = reinterpret_cast<kvc_scope *>(1);
    const kvc_status status = kvc_scope_create(&out, host.store, &o, &host.error);
    EXPECT_EQ(out, nullptr);
    return status;
  };
  expect(kvc_scope_create(nullptr, host.store, nullptr, &host.error), KVC_ERR_ARGUMENT, {"out is NULL"});
  kvc_scope *none;
  expect(kvc_scope_create(&none, host.store, nullptr, &host.error), KVC_ERR_ARGUMENT, {"options is NULL"});
  expect(with([](kvc_scope_options &o) { o.model = nullptr; }), KVC_ERR_ARGUMENT, {"model is NULL"});
  expect(with([](kvc_scope_options &o) { o.model = ""; }), KVC_ERR_ARGUMENT, {"model is empty"});
  expect(with([](kvc_scope_options &o) { o.flags = 2; }), KVC_ERR_TOO_NEW, {"0x2"});
  expect(with([](kvc_scope_options &o) { o.salt_size = 5; }), KVC_ERR_ARGUMENT, {"salt is NULL", "5"});
  expect(with([](kvc_scope_options &o) {
           static const auto p = sized<kvc_precision>();
           o.precision = &p;
         }),
         KVC_ERR_UNSUPPORTED, {"precision"});
  shape.layers = &layer, shape.dtype = 0;
  expect(with([](kvc_scope_options &) {}), KVC_ERR_SHAPE, {"dtype 0"});
  shape.dtype = KVC_F16, shape.chunk_tokens = 17;
  expect(with([](kvc_scope_options &) {}), KVC_ERR_SHAPE, {"chunk_tokens 17"});
  const kvc_layer wide = full_layers(400, 128, 1024, 1024);  // a chunk of 6.7 GB
  shape.chunk_tokens = 64, shape.layers = &wide;
  const kvc_status full = with([](kvc_scope_options &) {});
  EXPECT_EQ(host.error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER));
  expect(full, KVC_ERR_FULL, {"memory_bytes is", "open the store with more memory_bytes"});
}

TEST_F(CallsTest, B109_a_shape_that_is_none_is_refused_by_value_and_rule) {
  expect(kvc_shape_check(nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT, {"shape is NULL"});
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16;
  expect(kvc_shape_check(nullptr, &shape, &host.error), KVC_ERR_SHAPE, {"layer_runs 0"});
  shape.layer_runs = 1;
  expect(kvc_shape_check(nullptr, &shape, &host.error), KVC_ERR_SHAPE, {"layers NULL"});
}

TEST_F(CallsTest, B109_a_sequence_of_bad_arguments_is_refused_by_value_and_rule) {
  const auto tokens = ids(32);
  const auto both = [&](const std::function<void(kvc_seq_options &)> &set, kvc_status status, std::vector<const char *> words) {
    auto o = sized<kvc_seq_options>();
    set(o);
    kvc_seq *out = reinterpret_cast<kvc_seq *>(1);
    expect(kvc_seq_create(&out, host.scope, &o, &host.error), status, words);
    EXPECT_EQ(out, nullptr);
    out = reinterpret_cast<kvc_seq *>(1);
    expect(kvc_match(&out, nullptr, host.scope, tokens.data(), tokens.size(), &o, nullptr, &host.error), status, words);
    EXPECT_EQ(out, nullptr);
  };
  both([](kvc_seq_options &o) { o.flags = 8; }, KVC_ERR_TOO_NEW, {"0x8"});
  both([](kvc_seq_options &o) { o.layer_begin = 1; }, KVC_ERR_ARGUMENT, {"layer_begin 1", "layer_count 0"});
  both([](kvc_seq_options &o) { o.layer_begin = 1, o.layer_count = 2; }, KVC_ERR_RANGE, {"layers [1, +2)", "has 2"});
  both([](kvc_seq_options &o) { o.head_begin = 1; }, KVC_ERR_ARGUMENT, {"head_begin 1", "head_count 0"});
  both([](kvc_seq_options &o) { o.head_count = 3; }, KVC_ERR_RANGE, {"heads [0, +3)", "has 2"});
  both(
      [](kvc_seq_options &o) {
        static const auto p = sized<kvc_precision>();
        o.precision = &p;
      },
      KVC_ERR_UNSUPPORTED, {"precision"});
  both([](kvc_seq_options &o) { o.tier = KVC_TIER_NVME; }, KVC_ERR_UNSUPPORTED, {"tier 3"});
  both([](kvc_seq_options &o) { o.reserved = 9; }, KVC_ERR_TOO_NEW, {"reserved", "9"});
  both([](kvc_seq_options &o) { o.extra_count = 9; }, KVC_ERR_ARGUMENT, {"extras is NULL", "9"});
  static const kvc_extra no_tokens{3, 0, "x", 1}, no_data{3, 1, nullptr, 1}, empty{3, 1, "x", 0}, long_data{3, 1, "x", 65},
      overflow{UINT64_MAX, 2, "x", 1};
  both([](kvc_seq_options &o) { o.extras = &no_tokens, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"token_count 0"});
  both([](kvc_seq_options &o) { o.extras = &no_data, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"NULL"});
  both([](kvc_seq_options &o) { o.extras = &empty, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"data_size 0"});
  both([](kvc_seq_options &o) { o.extras = &long_data, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"data_size 65"});
  both([](kvc_seq_options &o) { o.extras = &overflow, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"18446744073709551615"});
  kvc_seq *out;
  auto o = sized<kvc_seq_options>();
  o.flags = KVC_SEQ_PEEK;
  expect(kvc_seq_create(&out, host.scope, &o, &host.error), KVC_ERR_ARGUMENT, {"only a match"});
  expect(kvc_seq_create(nullptr, host.scope, nullptr, &host.error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect(kvc_match(nullptr, nullptr, host.scope, tokens.data(), 32, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT,
         {"out is NULL", "PEEK"});
  expect(kvc_match(&out, nullptr, host.scope, nullptr, 32, nullptr, nullptr, &host.error), KVC_ERR_ARGUMENT, {"tokens is NULL", "32"});
  ScopeHandle objects_only = host.make_scope("objects", {});
  expect(kvc_seq_create(&out, objects_only, nullptr, &host.error), KVC_ERR_SHAPE, {"no shape"});
  expect(kvc_match(&out, nullptr, objects_only, tokens.data(), 32, nullptr, nullptr, &host.error), KVC_ERR_SHAPE, {"no shape"});
}

TEST_F(CallsTest, B109_appending_and_gathering_nothing_is_refused_by_value_and_rule) {
  const auto tokens = ids(4);
  expect(kvc_append(seq, nullptr, 0, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT, {"nothing to append"});
  expect(kvc_append(seq, nullptr, 4, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT, {"tokens is NULL", "4"});
  expect(kvc_append(seq, tokens.data(), 4, nullptr, 2, nullptr, &host.error), KVC_ERR_ARGUMENT, {"rows is NULL", "2"});
  expect(kvc_append(seq, tokens.data(), SIZE_MAX / 2, nullptr, 0, nullptr, &host.error), KVC_ERR_RANGE, {"at most"});
  expect(kvc_gather(nullptr, seq, nullptr, 0, nullptr, &host.error), KVC_ERR_ARGUMENT, {"row_count 0"});
  expect(kvc_gather(nullptr, seq, nullptr, 3, nullptr, &host.error), KVC_ERR_ARGUMENT, {"rows is NULL", "3"});
  const auto rows = sized<kvc_rows>();
  expect(kvc_gather(nullptr, seq, &rows, SIZE_MAX, nullptr, &host.error), KVC_ERR_ARGUMENT, {"row_count"});
}

TEST_F(CallsTest, a_gather_that_fails_fills_its_result_too) {
  auto result = sized<kvc_result>();
  auto call = sized<kvc_call>();
  call.user = 77;
  result.done = 5;
  expect(kvc_gather(&result, seq, nullptr, 0, &call, &host.error), KVC_ERR_ARGUMENT, {});
  EXPECT_EQ(result.status, KVC_ERR_ARGUMENT);
  EXPECT_EQ(result.operation, static_cast<uint32_t>(KVC_OP_GATHER));
  EXPECT_EQ(result.done, 0u);
  EXPECT_EQ(result.user, 77u);
  EXPECT_NE(std::string(result.message).find("row_count 0"), std::string::npos);
  const auto rows = sized<kvc_rows>();
  expect(kvc_gather(&result, nullptr, &rows, 1, nullptr, &host.error), KVC_ERR_MISUSE, {});
  EXPECT_EQ(result.status, KVC_ERR_MISUSE);
}

TEST_F(CallsTest, how_a_call_runs) {
  const auto with = [&](const std::function<void(kvc_call &)> &set) {
    auto call = sized<kvc_call>();
    set(call);
    const auto rows = sized<kvc_rows>();
    return kvc_gather(nullptr, seq, &rows, 1, &call, &host.error);
  };
  expect(with([](kvc_call &c) { c.flags = 16; }), KVC_ERR_TOO_NEW, {"0x10"});
  expect(with([](kvc_call &c) { c.flags = KVC_CALL_MORE; }), KVC_ERR_ARGUMENT, {"KVC_CALL_MORE"});
  expect(with([](kvc_call &c) { c.flags = KVC_CALL_DETACH; }), KVC_ERR_ARGUMENT, {"KVC_CALL_DETACH"});
  expect(with([](kvc_call &c) { c.queue = reinterpret_cast<kvc_queue *>(8); }), KVC_ERR_MISUSE, {"kvc_queue"});
}

TEST_F(CallsTest, B109_lengths_and_ranges_that_a_sequence_has_not_are_refused_by_value_and_rule) {
  kvc_seq *out = reinterpret_cast<kvc_seq *>(1);
  expect(kvc_seq_fork(nullptr, seq, 1, &host.error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect(kvc_seq_fork(&out, seq, 21, &host.error), KVC_ERR_RANGE, {"tokens 21", "20"});
  EXPECT_EQ(out, nullptr);
  expect(kvc_seq_truncate(seq, 21, &host.error), KVC_ERR_RANGE, {"tokens 21", "20"});
  expect(kvc_seq_truncate(seq, KVC_ALL, &host.error), KVC_ERR_RANGE, {"18446744073709551615"});
  const kvc_extra sealed{15, 2, "x", 1};
  expect(kvc_seq_identify(seq, nullptr, 0, &host.error), KVC_ERR_ARGUMENT, {"extra_count 0"});
  expect(kvc_seq_identify(seq, nullptr, 2, &host.error), KVC_ERR_ARGUMENT, {"extras is NULL", "2"});
  expect(kvc_seq_identify(seq, &sealed, 1, &host.error), KVC_ERR_RANGE, {"token 15", "token 16"});
  kvc_lease *lease = reinterpret_cast<kvc_lease *>(1);
  expect(kvc_seq_lease(nullptr, seq, 0, 1, 0, nullptr, &host.error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect(kvc_seq_lease(&lease, seq, 0, 21, 0, nullptr, &host.error), KVC_ERR_RANGE, {"21", "20"});
  EXPECT_EQ(lease, nullptr);
  expect(kvc_seq_lease(&lease, seq, 21, 0, 0, nullptr, &host.error), KVC_ERR_RANGE, {"21", "20"});
  expect(kvc_seq_lease(&lease, seq, 5, UINT64_MAX - 1, 0, nullptr, &host.error), KVC_ERR_RANGE, {"20"});
  expect(kvc_seq_lease(&lease, seq, 5, 0, 0, nullptr, &host.error), KVC_ERR_ARGUMENT, {"token_count 0"});
}

}  // namespace
