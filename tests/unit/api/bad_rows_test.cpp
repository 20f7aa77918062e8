#include <climits>
#include <functional>

#include "host.h"

/// Wrong descriptions of rows: a status, one line that names the value and the rule, and nothing changed - neither in the store nor in the
/// caller's memory.
namespace {

using namespace kvc_test;

struct Case {
  const char *name;
  std::function<void(kvc_rows &)> spoil;
  kvc_status status;
  std::vector<const char *> words;  // all of them in the message
};

class BadRows : public testing::Test {
 protected:
  static constexpr uint64_t kTokens = 40;
  static constexpr uint64_t kBytes = 1u << 16;
  Host host{{full_layers(3, 2, 8, 8), full_layers(1, 4, 4, 6), full_layers(1, 2, 8, 8, KVC_F8_E4M3, KVC_F8_E4M3)}, KVC_F16, 16};
  SeqHandle seq = host.create();
  std::vector<uint8_t> memory = poisoned(2 * kBytes);
  std::vector<int32_t> table = {3, 1, 4, 0, 5, 2};

  /// Layers 0..2, tokens [begin, begin + count), packed with a gap of nothing.
  kvc_rows good(uint64_t begin, uint64_t count) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 3;
    rows.token_begin = begin, rows.token_count = count;
    rows.k.data = memory.data(), rows.v.data = memory.data() + kBytes;
    rows.k.bytes = rows.v.bytes = kBytes;
    rows.k.layer_stride = rows.v.layer_stride = 64 * 32;
    return rows;
  }
  kvc_rows with_table(uint64_t begin, uint64_t count) {
    kvc_rows rows = good(begin, count);
    rows.block_tokens = 16;
    rows.blocks = table.data(), rows.block_count = table.size();
    rows.k.layer_stride = rows.v.layer_stride = 6 * 16 * 32;
    return rows;
  }
  void SetUp() override {
    std::vector<kvc_rows> rows{good(0, 20), good(0, 20), good(0, 20)};
    rows[1].layer_begin = 3, rows[1].layer_count = 1;
    rows[2].layer_begin = 4, rows[2].layer_count = 1;
    ASSERT_EQ(host.append(seq, ids(kTokens), rows), KVC_OK) << host.error.message;
  }

  /// Everything that a failed call may not change, as one text.
  std::string state() {
    auto s = sized<kvc_seq_info>();
    auto i = sized<kvc_store_info>();
    auto c = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_seq_get_info(&s, seq, nullptr), KVC_OK);
    EXPECT_EQ(kvc_store_get_info(&i, host.store, nullptr), KVC_OK);
    EXPECT_EQ(kvc_scope_get_info(&c, host.scope, nullptr), KVC_OK);
    std::string out;
    for (const uint64_t n : {s.tokens, s.tokens_given, s.tokens_sealed, s.tokens_held, s.bytes_host, i.memory_used, i.memory_pinned,
                             i.chunk_count, i.seq_count, c.bytes_host, c.tokens_written, c.tokens_read})
      out += std::to_string(n) + " ";
    return out;
  }
  void expect(const Case &c, const kvc_rows &base, bool append) {
    kvc_rows rows = base;
    c.spoil(rows);
    const std::string before = state();
    const std::vector<uint8_t> bytes = memory;
    host.error = ErrorText();
    const kvc_status status = append ? host.append(seq, {}, {rows}) : host.gather(seq, {rows});
    const std::string text = host.error.text(), where = std::string(c.name) + (append ? " (append)" : " (gather)");
    EXPECT_EQ(status, c.status) << where << ": " << text;
    EXPECT_EQ(host.error.status, c.status) << where;
    EXPECT_EQ(text.find('\n'), std::string::npos) << where << ": " << text;
    for (const char *word : c.words) EXPECT_NE(text.find(word), std::string::npos) << where << ": no '" << word << "' in '" << text << "'";
    EXPECT_EQ(state(), before) << where;
    EXPECT_TRUE(memory == bytes) << where << ": memory was written";
  }
  void expect_both(const Case &c) {
    expect(c, good(20, 12), true);
    expect(c, good(0, 20), false);
  }
};

TEST_F(BadRows, the_rows_that_are_spoilt_below_are_right) {
  EXPECT_EQ(host.gather(seq, {good(0, 20)}), KVC_OK) << host.error.message;
  EXPECT_EQ(host.gather(seq, {with_table(0, 20)}), KVC_OK) << host.error.message;
  EXPECT_EQ(host.append(seq, {}, {good(20, 12)}), KVC_OK) << host.error.message;
}

TEST_F(BadRows, values_that_no_call_takes) {
  const std::vector<Case> cases{
      {"flags", [](kvc_rows &r) { r.flags = 0x10; }, KVC_ERR_TOO_NEW, {"flags", "0x10"}},
      {"layer_count 0", [](kvc_rows &r) { r.layer_count = 0; }, KVC_ERR_ARGUMENT, {"layer_count 0"}},
      {"token_count 0", [](kvc_rows &r) { r.token_count = 0; }, KVC_ERR_ARGUMENT, {"token_count 0", "nothing to move", "skip the call"}},
      {"layer past the last", [](kvc_rows &r) { r.layer_begin = 5; }, KVC_ERR_RANGE, {"5", "layers"}},
      {"layers past the last", [](kvc_rows &r) { r.layer_begin = 3, r.layer_count = 3; }, KVC_ERR_RANGE, {"[3, +3)", "5"}},
      {"layers that overflow", [](kvc_rows &r) { r.layer_begin = 4, r.layer_count = UINT32_MAX; }, KVC_ERR_RANGE, {"4294967295"}},
      {"layers of two geometries", [](kvc_rows &r) { r.layer_begin = 1; }, KVC_ERR_SHAPE, {"[1, +3)", "geometry"}},
      {"head past the last", [](kvc_rows &r) { r.head_begin = 2, r.head_count = 1; }, KVC_ERR_RANGE, {"[2, +1)", "2"}},
      {"heads past the last", [](kvc_rows &r) { r.head_begin = 1, r.head_count = 2; }, KVC_ERR_RANGE, {"[1, +2)"}},
      {"heads that overflow", [](kvc_rows &r) { r.head_begin = 1, r.head_count = UINT32_MAX; }, KVC_ERR_RANGE, {"4294967295"}},
      {"head_begin without a count", [](kvc_rows &r) { r.head_begin = 1; }, KVC_ERR_ARGUMENT, {"head_begin 1"}},
      {"dtype unknown", [](kvc_rows &r) { r.k.dtype = 6; }, KVC_ERR_ARGUMENT, {"k.dtype 6", "BF16"}},
      {"dtype of v unknown", [](kvc_rows &r) { r.v.dtype = 99; }, KVC_ERR_ARGUMENT, {"v.dtype 99"}},
      {"f8 of an f16 layer", [](kvc_rows &r) { r.k.dtype = KVC_F8_E4M3; }, KVC_ERR_SHAPE, {"k.dtype F8_E4M3", "shape's F16"}},
      {"raw bytes of an f16 layer", [](kvc_rows &r) { r.v.dtype = KVC_U8; }, KVC_ERR_SHAPE, {"v.dtype U8"}},
      {"f16 of an f8 layer",
       [](kvc_rows &r) { r.layer_begin = 4, r.layer_count = 1, r.k.dtype = KVC_F16; },
       KVC_ERR_SHAPE,
       {"k.dtype F16", "shape's F8_E4M3"}},
      {"no layer_stride", [](kvc_rows &r) { r.v.layer_stride = 0; }, KVC_ERR_ARGUMENT, {"v.layer_stride", "3 layers"}},
      {"blocks without block_tokens", [](kvc_rows &r) { r.block_count = 3; }, KVC_ERR_ARGUMENT, {"block_tokens"}},
      {"block_tokens without blocks", [](kvc_rows &r) { r.block_tokens = 16; }, KVC_ERR_ARGUMENT, {"blocks is NULL", "16"}},
      {"memory of no kind", [](kvc_rows &r) { r.memory = 4; }, KVC_ERR_ARGUMENT, {"memory 4"}},
      {"device memory", [](kvc_rows &r) { r.memory = KVC_MEMORY_CUDA; }, KVC_ERR_UNSUPPORTED, {"memory 1"}},
      {"pinned memory", [](kvc_rows &r) { r.memory = KVC_MEMORY_CUDA_HOST; }, KVC_ERR_UNSUPPORTED, {"memory 2"}},
      {"managed memory at an address that is none",
       [](kvc_rows &r) { r.memory = KVC_MEMORY_CUDA_MANAGED, r.k.data = reinterpret_cast<void *>(8); },
       KVC_ERR_UNSUPPORTED,
       {"memory 3"}},
      {"a stream", [](kvc_rows &r) { r.stream = &r; }, KVC_ERR_ARGUMENT, {"stream"}},
      {"scales",
       [](kvc_rows &r) {
         static const float one = 1;
         r.k_scale = &one;
       },
       KVC_ERR_UNSUPPORTED,
       {"k_scale"}},
      {"both sides NULL", [](kvc_rows &r) { r.k.data = r.v.data = nullptr; }, KVC_ERR_ARGUMENT, {"NULL"}},
  };
  for (const Case &c : cases) expect_both(c);
}

TEST_F(BadRows, sums_and_products_that_overflow) {
  const std::vector<Case> cases{
      {"slot_begin + token_count",
       [](kvc_rows &r) { r.slot_begin = UINT64_MAX - 3; },
       KVC_ERR_ARGUMENT,
       {"18446744073709551612", "overflow"}},
      {"token_stride * slot",
       [](kvc_rows &r) { r.k.token_stride = UINT64_MAX; },
       KVC_ERR_ARGUMENT,
       {"k.token_stride 18446744073709551615"}},
      {"layer_stride * layers",
       [](kvc_rows &r) { r.v.layer_stride = 1ull << 63; },
       KVC_ERR_ARGUMENT,
       {"v.bytes ", "or more", "v.layer_stride 9223372036854775808"}},
      {"head_stride", [](kvc_rows &r) { r.k.head_stride = 1ull << 62; }, KVC_ERR_ARGUMENT, {"k.", "_stride"}},
      {"dim_stride, and what is packed around it",
       [](kvc_rows &r) { r.k.dim_stride = UINT64_MAX / 3; },
       KVC_ERR_ARGUMENT,
       {"k.", "_stride"}},
      {"slot_begin far out", [](kvc_rows &r) { r.slot_begin = 1ull << 60; }, KVC_ERR_ARGUMENT, {"k.token_stride 32"}},
      {"dim_group at its most", [](kvc_rows &r) { r.k.dim_group = UINT32_MAX; }, KVC_ERR_ARGUMENT, {"k.", "_stride"}},
      {"strides whose products add up to 2^128 and a little",
       [](kvc_rows &r) {
         r.slot_begin = UINT64_MAX - r.token_count;
         r.k.token_stride = r.k.layer_stride = r.k.head_stride = UINT64_MAX;
         r.k.dim_stride = 2;
       },
       KVC_ERR_ARGUMENT,
       {"k.bytes", "or more", "k.token_stride 18446744073709551615 reaches farthest"}},
      {"an array that passes the end of memory",
       [](kvc_rows &r) { r.k.data = reinterpret_cast<void *>(UINT64_MAX - 100); },
       KVC_ERR_ARGUMENT,
       {"k.bytes", "end of memory"}},
  };
  for (const Case &c : cases) expect_both(c);
  expect({"token_begin + token_count",
          [](kvc_rows &r) { r.token_begin = UINT64_MAX - 5; },
          KVC_ERR_ARGUMENT,
          {"18446744073709551610", "overflow"}},
         good(20, 12), true);
  expect({"token_begin + token_count",
          [](kvc_rows &r) { r.token_begin = UINT64_MAX - 5; },
          KVC_ERR_ARGUMENT,
          {"18446744073709551610", "overflow"}},
         good(0, 20), false);
}

TEST_F(BadRows, an_append_starts_where_its_layers_end) {
  const std::vector<Case> cases{
      {"a gap", [](kvc_rows &r) { r.token_begin = 21; }, KVC_ERR_RANGE, {"layer 0", "21", "gap", "20"}},
      {"an overlap", [](kvc_rows &r) { r.token_begin = 19; }, KVC_ERR_RANGE, {"layer 0", "19", "overlap", "20"}},
      {"rows ahead of ids", [](kvc_rows &r) { r.token_count = 21; }, KVC_ERR_RANGE, {"41", "40"}},
      {"part of the heads", [](kvc_rows &r) { r.head_count = 1; }, KVC_ERR_RANGE, {"layer 0", "1 of 2 heads"}},
      {"the upper heads alone", [](kvc_rows &r) { r.head_begin = 1, r.head_count = 1; }, KVC_ERR_RANGE, {"layer 0", "heads start at 1"}},
      {"KVC_ALL", [](kvc_rows &r) { r.token_count = KVC_ALL; }, KVC_ERR_ARGUMENT, {"KVC_ALL"}},
      {"a list",
       [](kvc_rows &r) {
         static const uint64_t list[] = {20};
         r.token_list = list;
       },
       KVC_ERR_ARGUMENT,
       {"token_list"}},
      {"a unit", [](kvc_rows &r) { r.token_unit = 16; }, KVC_ERR_ARGUMENT, {"token_unit"}},
      {"K without V", [](kvc_rows &r) { r.v.data = nullptr; }, KVC_ERR_ARGUMENT, {"v.data is NULL"}},
      {"V without K", [](kvc_rows &r) { r.k.data = nullptr; }, KVC_ERR_ARGUMENT, {"k.data is NULL"}},
  };
  for (const Case &c : cases) expect(c, good(20, 12), true);
}

TEST_F(BadRows, one_bad_run_among_good_ones_fails_the_whole_append) {
  const std::string before = state();
  kvc_rows bad = good(20, 12);
  bad.layer_begin = 3, bad.layer_count = 1, bad.token_begin = 22;
  EXPECT_EQ(host.append(seq, {}, {good(20, 12), bad}), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("layer 3"), std::string::npos) << host.error.message;
  EXPECT_EQ(host.append(seq, ids(5), {good(20, 12), good(20, 12)}), KVC_ERR_RANGE);  // the second overlaps the first
  EXPECT_EQ(state(), before);
  kvc_rows low = good(20, 12), high = good(20, 12);
  low.head_count = 1, high.head_begin = 1, high.head_count = 1, high.token_count = 11;
  EXPECT_EQ(host.append(seq, {}, {low, high}), KVC_ERR_RANGE);  // the upper heads of fewer tokens
  EXPECT_EQ(state(), before);
  EXPECT_EQ(host.append(seq, {}, {}), KVC_ERR_ARGUMENT);
  EXPECT_EQ(state(), before);
}

TEST_F(BadRows, a_gather_reads_what_is_filled) {
  static const uint64_t past[] = {3, 20}, none[] = {UINT64_MAX}, ok[] = {0, 1};
  const std::vector<Case> cases{
      {"past filled", [](kvc_rows &r) { r.token_count = 21; }, KVC_ERR_RANGE, {"layer 0", "21", "20"}},
      {"wholly past filled", [](kvc_rows &r) { r.token_begin = 20; }, KVC_ERR_RANGE, {"40", "20"}},
      {"KVC_ALL from where nothing is",
       [](kvc_rows &r) { r.token_begin = 20, r.token_count = KVC_ALL; },
       KVC_ERR_RANGE,
       {"token_begin 20", "20"}},
      {"a list past filled", [](kvc_rows &r) { r.token_list = past, r.token_count = 2; }, KVC_ERR_RANGE, {"21", "20"}},
      {"a list of nowhere", [](kvc_rows &r) { r.token_list = none, r.token_count = 1; }, KVC_ERR_RANGE, {"18446744073709551615"}},
      {"a list and token_begin",
       [](kvc_rows &r) { r.token_list = ok, r.token_count = 2, r.token_begin = 1; },
       KVC_ERR_ARGUMENT,
       {"token_begin 1"}},
      {"a list without a count", [](kvc_rows &r) { r.token_list = ok, r.token_count = KVC_ALL; }, KVC_ERR_ARGUMENT, {"token_count"}},
      {"more entries than there can be",
       [](kvc_rows &r) { r.token_list = ok, r.token_unit = 16, r.token_count = 1ull << 60; },
       KVC_ERR_ARGUMENT,
       {"token_count"}},
      {"a unit without a list", [](kvc_rows &r) { r.token_unit = 16; }, KVC_ERR_ARGUMENT, {"token_unit 16"}},
      {"units past filled", [](kvc_rows &r) { r.token_list = ok + 1, r.token_unit = 16, r.token_count = 1; }, KVC_ERR_RANGE, {"32", "20"}},
  };
  for (const Case &c : cases) expect(c, good(0, 20), false);
}

TEST_F(BadRows, B25_slots_that_were_never_written_are_not_handed_out) {
  kvc_rows rows = with_table(16, 16);  // the whole second block, of which 4 rows are there
  const std::vector<uint8_t> before = memory;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_RANGE);
  EXPECT_TRUE(memory == before);
  rows.token_count = KVC_ALL;
  auto result = sized<kvc_result>();
  ASSERT_EQ(host.gather(seq, {rows}, &result), KVC_OK) << host.error.message;
  EXPECT_EQ(result.done, 20u);
}

TEST_F(BadRows, block_tables) {
  table = {3, -1, 4, 0, INT_MIN, 2};
  const std::vector<Case> cases{
      {"a touched block is negative", [](kvc_rows &) {}, KVC_ERR_ARGUMENT, {"blocks[1] is -1"}},
      {"the most negative one", [](kvc_rows &r) { r.slot_begin = 64; }, KVC_ERR_ARGUMENT, {"blocks[4] is -2147483648"}},
      {"a table that ends too early",
       [](kvc_rows &r) { r.slot_begin = 32, r.block_count = 3; },
       KVC_ERR_RANGE,
       {"slot ", "block_count is 3"}},
      {"a table of nothing", [](kvc_rows &r) { r.block_count = 0; }, KVC_ERR_RANGE, {"block_count is 0"}},
      {"a slot that overflows", [](kvc_rows &r) { r.slot_begin = UINT64_MAX - 1; }, KVC_ERR_ARGUMENT, {"overflow"}},
  };
  for (const Case &c : cases) {
    expect(c, with_table(0, 20), false);
    expect(c, with_table(20, 20), true);
  }
  kvc_rows fine = with_table(0, 20);  // blocks 2 and 3 of the table: the negative ones are not touched
  fine.slot_begin = 33;
  EXPECT_EQ(host.gather(seq, {fine}), KVC_OK) << host.error.message;
}

TEST_F(BadRows, block_ids_are_held_against_the_array) {
  table = {3, INT_MAX, 4, 0, 5, 2};
  const Case far{"a block past the array", [](kvc_rows &) {}, KVC_ERR_ARGUMENT, {"k.bytes 65536: the rows need ", "k.block_stride 512", "blocks[1] is 2147483647"}};
  expect(far, with_table(0, 20), false);
  expect(far, with_table(20, 20), true);
}

TEST_F(BadRows, a_destination_names_no_block_twice_and_a_source_may) {
  table = {3, 1, 3, 0, 5, 2};
  expect({"a block twice", [](kvc_rows &r) { r.slot_begin = 15; }, KVC_ERR_ARGUMENT, {"block 3", "twice"}}, with_table(0, 20), false);
  kvc_rows source = with_table(20, 20);
  source.slot_begin = 15;
  EXPECT_EQ(host.append(seq, {}, {source}), KVC_OK) << host.error.message;
}

TEST_F(BadRows, B08_a_stride_by_which_elements_would_lie_on_each_other_is_refused_by_name) {
  const std::vector<Case> cases{
      {"dim_stride", [](kvc_rows &r) { r.k.dim_stride = 1; }, KVC_ERR_ARGUMENT, {"k.dim_stride 1", "at least 2"}},
      {"head_stride", [](kvc_rows &r) { r.v.head_stride = 14; }, KVC_ERR_ARGUMENT, {"v.head_stride 14", "at least 16"}},
      {"token_stride", [](kvc_rows &r) { r.k.token_stride = 31; }, KVC_ERR_ARGUMENT, {"k.token_stride 31", "at least 32"}},
      {"token_stride of another dtype",
       [](kvc_rows &r) { r.k.dtype = KVC_F32, r.k.token_stride = 32; },
       KVC_ERR_ARGUMENT,
       {"k.token_stride 32", "at least 64"}},
      {"layer_stride of one element", [](kvc_rows &r) { r.v.layer_stride = 2; }, KVC_ERR_ARGUMENT, {"v.layer_stride 2", "at least 16"}},
      {"dim_group", [](kvc_rows &r) { r.k.dim_group = 4, r.k.dim_stride = 7; }, KVC_ERR_ARGUMENT, {"k.dim_stride 7", "at least 8"}},
  };
  for (const Case &c : cases) expect_both(c);
  const auto layers = [](kvc_rows &r) { r.k.layer_stride = r.token_count * 32 - 1; };
  expect({"layer_stride", layers, KVC_ERR_ARGUMENT, {"k.layer_stride 639", "at least 640"}}, good(0, 20), false);
  expect({"layer_stride", layers, KVC_ERR_ARGUMENT, {"k.layer_stride 383", "at least 384"}}, good(20, 12), true);
  const Case block{"block_stride", [](kvc_rows &r) { r.k.block_stride = 511; }, KVC_ERR_ARGUMENT, {"k.block_stride 511", "at least 512"}};
  expect(block, with_table(0, 20), false);
  expect(block, with_table(20, 20), true);
}

TEST_F(BadRows, k_and_v_of_a_destination_lie_apart_and_those_of_a_source_need_not) {
  const std::vector<Case> cases{
      {"K and V at one place", [](kvc_rows &r) { r.v.data = r.k.data; }, KVC_ERR_ARGUMENT, {"k and v", "same address"}},
      {"V in K", [](kvc_rows &r) { r.v.data = static_cast<char *>(r.k.data) + 2; }, KVC_ERR_ARGUMENT, {"k and v", "same address"}},
      {"V one byte into K",
       [](kvc_rows &r) { r.v.data = static_cast<char *>(r.k.data) + 2 * 2048 + 639; },
       KVC_ERR_ARGUMENT,
       {"k and v", "same address"}},
  };
  for (const Case &c : cases) expect(c, good(0, 20), false);
  kvc_rows source = good(20, 12);
  cases[0].spoil(source);
  EXPECT_EQ(host.append(seq, {}, {source}), KVC_OK) << host.error.message;
}

TEST_F(BadRows, two_runs_of_a_gather_write_to_two_places) {
  const std::string before = state();
  const std::vector<uint8_t> bytes = memory;
  kvc_rows second = good(0, 20);
  second.layer_begin = 1, second.layer_count = 2;
  EXPECT_EQ(host.gather(seq, {good(0, 20), second}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("rows[0] and rows[1]"), std::string::npos) << host.error.message;
  second.k.data = memory.data() + 638, second.v.data = memory.data() + kBytes + 640;
  EXPECT_EQ(host.gather(seq, {good(0, 20), second}), KVC_ERR_ARGUMENT);
  EXPECT_TRUE(memory == bytes);
  second.k.data = memory.data() + 640;  // between the layers of the first
  EXPECT_EQ(host.gather(seq, {good(0, 20), second}), KVC_OK) << host.error.message;
  EXPECT_NE(state(), before);  // tokens_read
}

TEST_F(BadRows, one_byte_less_than_the_last_element_needs_is_blamed_on_the_bytes_and_names_the_farthest_stride) {
  struct Ends {
    const char *name;
    std::function<void(kvc_rows &)> lay;
    uint64_t bytes;
  };
  const std::vector<Ends> all{
      {"k.layer_stride", [](kvc_rows &) {}, 2 * 2048 + 640},
      {"k.token_stride", [](kvc_rows &r) { r.k.token_stride = 3000, r.k.layer_stride = 32; }, 2 * 32 + 19 * 3000 + 32},
      {"k.head_stride", [](kvc_rows &r) { r.k.head_stride = 16000, r.k.token_stride = 16; }, 2 * 2048 + 19 * 16 + 16000 + 16},
      {"k.dim_stride", [](kvc_rows &r) { r.k.dim_stride = 6500, r.k.token_stride = 2, r.k.head_stride = 40; },
       2 * 2048 + 19 * 2 + 40 + 7 * 6500 + 2},
  };
  for (const Ends &c : all) {
    kvc_rows rows = good(0, 20);
    c.lay(rows);
    rows.k.bytes = c.bytes - 1;
    EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT) << c.name;
    const std::string blamed = "k.bytes " + std::to_string(c.bytes - 1) + ": the rows need " + std::to_string(c.bytes) + "; " + c.name + " ";
    EXPECT_EQ(host.error.text().find(blamed), 0u) << host.error.message << ", not " << blamed;
    rows.k.bytes = c.bytes;
    EXPECT_EQ(host.gather(seq, {rows}), KVC_OK) << c.name << ": " << host.error.message;
    rows.token_begin = 20, rows.k.bytes = c.bytes - 1;
    EXPECT_EQ(host.append(seq, {}, {rows}), KVC_ERR_ARGUMENT) << c.name;
  }
  kvc_rows rows = with_table(0, 20);
  const uint64_t end = 2 * 3072 + 3 * 512 + 512;  // blocks 3 and 1
  rows.k.bytes = end - 1;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT);
  rows.k.bytes = end;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
}

}  // namespace
