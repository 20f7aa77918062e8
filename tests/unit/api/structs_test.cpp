#include <algorithm>
#include <functional>

#include "host.h"

/// Structs of any age: as short as a first header's, as long as a later one's.
namespace {

using namespace kvc_test;

/// A struct in a longer memory, as a later header would have it.
template <typename T>
struct Longer {
  T value = sized<T>();
  uint8_t tail[24] = {};
  T *grow() {
    value.size = sizeof(T) + sizeof tail;
    return &value;
  }
};

struct StructsTest : testing::Test {
  Host host{{full_layers(1, 1, 8, 8)}, KVC_F16, 16};
  SeqHandle seq = host.create();
  std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 14);
  kvc_layer layer = full_layers(1, 1, 8, 8);
  kvc_bytes part{memory.data(), 8};
  kvc_object object{"k", 1, &part, 1, 0, 0, 0, 0, 0, nullptr};

  void SetUp() override {
    kvc_rows rows = good_rows();
    rows.token_count = 16;
    ASSERT_EQ(host.append(seq, ids(16), {rows}), KVC_OK) << host.error.message;
  }
  kvc_rows good_rows() {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = 1;
    rows.k.data = memory.data(), rows.v.data = memory.data() + 4096;
    rows.k.bytes = rows.v.bytes = 4096;
    return rows;
  }

  /// `call` takes the struct; every size is tried with it.
  template <typename T>
  void expect_input(const char *name, T good, std::function<kvc_status(const T *)> call) {
    Longer<T> s;
    s.value = good;
    s.value.size = sizeof(T);
    EXPECT_EQ(call(&s.value), KVC_OK) << name << ": " << host.error.message;
    for (const uint32_t size : {0u, 1u, 4u, 7u, 4097u, UINT32_MAX}) {
      s.value.size = size;
      EXPECT_EQ(call(&s.value), KVC_ERR_ARGUMENT) << name << " size " << size;
      EXPECT_NE(host.error.text().find("size " + std::to_string(size)), std::string::npos) << host.error.message;
    }
    EXPECT_EQ(call(s.grow()), KVC_OK) << name << " longer, tail zero: " << host.error.message;
    for (const size_t i : {size_t{0}, sizeof s.tail - 1}) {
      s.tail[i] = 1;
      EXPECT_EQ(call(s.grow()), KVC_ERR_TOO_NEW) << name << " longer, byte " << i << " set";
      EXPECT_NE(host.error.text().find("byte " + std::to_string(sizeof(T) + i)), std::string::npos) << host.error.message;
      s.tail[i] = 0;
    }
  }
  template <typename T>
  void expect_output(const char *name, std::function<kvc_status(T *)> call) {
    std::vector<uint8_t> whole(sizeof(T) + 64, 0xEE), part_of = whole;
    for (const uint32_t size : {0u, 4u, 7u, 4097u, UINT32_MAX}) {
      std::memcpy(whole.data(), &size, 4);
      EXPECT_EQ(call(reinterpret_cast<T *>(whole.data())), KVC_ERR_ARGUMENT) << name << " size " << size;
    }
    const uint32_t full = sizeof(T), less = 16, more = sizeof(T) + 32;
    for (const uint32_t size : {full, less, more}) {
      std::vector<uint8_t> at(sizeof(T) + 64, 0xEE);
      std::memcpy(at.data(), &size, 4);
      EXPECT_EQ(call(reinterpret_cast<T *>(at.data())), KVC_OK) << name << " size " << size << ": " << host.error.message;
      uint32_t size_after;
      std::memcpy(&size_after, at.data(), 4);
      EXPECT_EQ(size_after, size) << name;
      for (size_t i = std::min(size, full); i < at.size(); i++)
        ASSERT_EQ(at[i], 0xEE) << name << " size " << size << ": byte " << i << " was written";
      EXPECT_NE(std::count(at.begin() + 4, at.begin() + less, 0xEE), less - 4) << name << ": nothing was written";
    }
  }
};

TEST_F(StructsTest, inputs_of_every_size) {
  expect_input<kvc_store_options>(
      "kvc_store_options",
      [] {
        auto o = sized<kvc_store_options>();
        o.memory_bytes = 1 << 20;
        return o;
      }(),
      [&](const kvc_store_options *o) {
        StoreHandle store;
        return kvc_open(store.out(), "mem:", o, &host.error);
      });
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  expect_input<kvc_shape>("kvc_shape", shape, [&](const kvc_shape *s) { return kvc_shape_check(nullptr, s, &host.error); });
  auto scope_options = sized<kvc_scope_options>();
  scope_options.model = "m";
  expect_input<kvc_scope_options>("kvc_scope_options", scope_options, [&](const kvc_scope_options *o) {
    ScopeHandle scope;
    return kvc_scope_create(scope.out(), host.store, o, &host.error);
  });
  expect_input<kvc_shape>("kvc_shape in a scope", shape, [&](const kvc_shape *s) {
    auto o = scope_options;
    o.shape = s;
    ScopeHandle scope;
    return kvc_scope_create(scope.out(), host.store, &o, &host.error);
  });
  expect_input<kvc_seq_options>("kvc_seq_options", sized<kvc_seq_options>(), [&](const kvc_seq_options *o) {
    SeqHandle s;
    return kvc_seq_create(s.out(), host.scope, o, &host.error);
  });
  expect_input<kvc_seq_options>("kvc_seq_options of a match", sized<kvc_seq_options>(), [&](const kvc_seq_options *o) {
    SeqHandle s;
    return kvc_match(s.out(), nullptr, host.scope, nullptr, 0, o, nullptr, &host.error);
  });
  expect_input<kvc_rows>("kvc_rows", good_rows(), [&](const kvc_rows *r) { return kvc_gather(nullptr, seq, r, 1, nullptr, &host.error); });
  expect_input<kvc_call>("kvc_call", sized<kvc_call>(), [&](const kvc_call *c) {
    const kvc_rows r = good_rows();
    return kvc_gather(nullptr, seq, &r, 1, c, &host.error);
  });
  expect_input<kvc_object_options>("kvc_object_options", sized<kvc_object_options>(), [&](const kvc_object_options *o) {
    return kvc_object_put(nullptr, host.scope, &object, 1, o, nullptr, &host.error);
  });
}

TEST_F(StructsTest, outputs_of_every_size_are_filled_as_far_as_they_reach) {
  expect_output<kvc_store_info>("kvc_store_info", [&](kvc_store_info *i) { return kvc_store_get_info(i, host.store, &host.error); });
  expect_output<kvc_scope_info>("kvc_scope_info", [&](kvc_scope_info *i) { return kvc_scope_get_info(i, host.scope, &host.error); });
  expect_output<kvc_seq_info>("kvc_seq_info", [&](kvc_seq_info *i) { return kvc_seq_get_info(i, seq, &host.error); });
  expect_output<kvc_metrics>("kvc_metrics", [&](kvc_metrics *m) { return kvc_metrics_read(m, host.store, &host.error); });
  expect_output<kvc_verify_info>("kvc_verify_info",
                                 [&](kvc_verify_info *i) { return kvc_store_verify(i, host.store, nullptr, &host.error); });
  expect_output<kvc_match_info>("kvc_match_info", [&](kvc_match_info *i) {
    SeqHandle s;
    return kvc_match(s.out(), i, host.scope, nullptr, 0, nullptr, nullptr, &host.error);
  });
  expect_output<kvc_result>("kvc_result", [&](kvc_result *r) {
    const kvc_rows rows = good_rows();
    return kvc_gather(r, seq, &rows, 1, nullptr, &host.error);
  });
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  expect_output<kvc_shape_info>("kvc_shape_info", [&](kvc_shape_info *i) { return kvc_shape_check(i, &shape, &host.error); });
}

TEST_F(StructsTest, an_output_that_is_required_is_not_null) {
  for (const kvc_status status :
       {kvc_store_get_info(nullptr, host.store, &host.error), kvc_scope_get_info(nullptr, host.scope, &host.error),
        kvc_seq_get_info(nullptr, seq, &host.error), kvc_metrics_read(nullptr, host.store, &host.error)})
    EXPECT_EQ(status, KVC_ERR_ARGUMENT);
}

TEST_F(StructsTest, the_error_struct_is_written_as_far_as_it_reaches_and_only_on_failure) {
  std::vector<uint8_t> at(sizeof(kvc_error) + 16, 0xEE);
  for (const uint32_t size :
       {0u, 4u, 8u, 20u, 100u, static_cast<uint32_t>(sizeof(kvc_error)), static_cast<uint32_t>(sizeof(kvc_error) + 16)}) {
    std::fill(at.begin(), at.end(), 0xEE);
    std::memcpy(at.data(), &size, 4);
    EXPECT_EQ(kvc_seq_truncate(seq, 17, reinterpret_cast<kvc_error *>(at.data())), KVC_ERR_RANGE);
    const size_t end = size < 8 ? 4 : std::min<size_t>(size, sizeof(kvc_error));
    for (size_t i = end; i < at.size(); i++) ASSERT_EQ(at[i], 0xEE) << "size " << size << " byte " << i;
    if (size >= 8) {
      EXPECT_EQ(reinterpret_cast<kvc_error *>(at.data())->status, KVC_ERR_RANGE);
    }
    if (end > offsetof(kvc_error, message)) {
      EXPECT_NE(std::find(at.begin() + offsetof(kvc_error, message), at.begin() + static_cast<int64_t>(end), 0), at.begin() + static_cast<int64_t>(end)) << "size " << size << ": a message without an end";
    }
    const std::vector<uint8_t> before = at;
    EXPECT_EQ(kvc_seq_truncate(seq, 16, reinterpret_cast<kvc_error *>(at.data())), KVC_OK);
    EXPECT_EQ(at, before);
  }
  EXPECT_EQ(kvc_seq_truncate(seq, 17, nullptr), KVC_ERR_RANGE);
}

TEST_F(StructsTest, a_message_that_a_smaller_size_cuts_ends_with_a_whole_character) {
  kvc_error whole{}, cut;
  whole.size = sizeof whole;
  const char *const path = "/\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9/\xC3\xA9\xC3\xA9";
  ASSERT_NE(kvc_seq_save(seq, path, nullptr, &whole), KVC_OK);
  ASSERT_NE(std::string(whole.message).find("\xC3\xA9"), std::string::npos) << whole.message;
  for (uint32_t bytes = 1; bytes < 80; bytes++) {
    cut.size = static_cast<uint32_t>(offsetof(kvc_error, message)) + bytes;
    ASSERT_NE(kvc_seq_save(seq, path, nullptr, &cut), KVC_OK);
    const std::string text(cut.message, strnlen(cut.message, bytes));
    ASSERT_LT(text.size(), bytes);
    ASSERT_EQ(std::string(whole.message).find(text), 0u);
    ASSERT_NE(static_cast<uint8_t>(whole.message[text.size()]) & 0xC0, 0x80) << text;
    ASSERT_GE(std::min(strlen(whole.message), text.size() + 2), std::min<size_t>(strlen(whole.message), bytes)) << "cut too early";
  }
}

TEST_F(StructsTest, an_array_of_rows_has_the_stride_of_its_first) {
  struct Later {
    kvc_rows rows;
    uint64_t more;
  } two[2] = {{good_rows(), 0}, {good_rows(), 0}};
  two[0].rows.size = sizeof(Later);
  two[1].rows.size = 0;  // the first one's size counts
  two[1].rows.k.data = memory.data() + 8192, two[1].rows.v.data = nullptr;
  memory[8192] = 0xEE, memory[8193] = 0xEE;
  ASSERT_EQ(kvc_gather(nullptr, seq, &two[0].rows, 2, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(memory[8192], memory[0]);
  two[1].more = 1;
  EXPECT_EQ(kvc_gather(nullptr, seq, &two[0].rows, 2, nullptr, &host.error), KVC_ERR_TOO_NEW);
}

TEST_F(StructsTest, B124_options_are_read_and_never_changed) {
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  auto options = sized<kvc_scope_options>();
  options.model = "a", options.shape = &shape;
  const auto options_before = options;
  const auto shape_before = shape;
  const auto layer_before = layer;
  ScopeHandle a, b;
  ASSERT_EQ(kvc_scope_create(a.out(), host.store, &options, &host.error), KVC_OK);
  EXPECT_EQ(std::memcmp(&options, &options_before, sizeof options), 0);
  EXPECT_EQ(std::memcmp(&shape, &shape_before, sizeof shape), 0);
  EXPECT_EQ(std::memcmp(&layer, &layer_before, sizeof layer), 0);
  layer.k_dim = 16;  // the same structs for another model
  options.model = "b";
  ASSERT_EQ(kvc_scope_create(b.out(), host.store, &options, &host.error), KVC_OK);
  kvc_rows rows = good_rows();
  rows.token_count = 16, rows.k.bytes = 16 * 8 * 2;  // room for 8 dims, not for 16
  kvc_seq *seqs[2];
  for (int i = 0; i < 2; i++) ASSERT_EQ(kvc_seq_create(&seqs[i], i ? b : a, nullptr, &host.error), KVC_OK);
  SeqHandle first(seqs[0]), second(seqs[1]);
  EXPECT_EQ(host.append(first, ids(16), {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(host.append(second, ids(16), {rows}), KVC_ERR_ARGUMENT);
}

}  // namespace
