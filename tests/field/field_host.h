#pragma once
#include <map>

#include "base/clock.h"
#include "store/seam_store.h"
#include "store/store_info.h"
#include "stamped.h"

/// A host with a small model whose every element says who wrote it.
namespace kvc::field {

using namespace kvc_test;
using model::Block;
using model::Random;

constexpr uint64_t kChunk = 16;

/// Who wrote a token; its position in the writer's rows is its position in the sequence.
using Writers = std::function<uint64_t(uint64_t token)>;

struct FieldHost {
  const model::Geometry &geometry = model::geometries()[0];
  Random random{1};
  base::ManualClock clock;
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;

  explicit FieldHost(uint64_t memory_bytes = 8u << 20, uint32_t flags = 0) {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes;
    options.lease_ms = 1000, options.flags = flags, options.seq_max = 20000;
    store = open_with({.clock = &clock}, options);
    scope = make_scope({});
  }
  /// Members of `names` that are not set are the defaults of this host.
  ScopeHandle make_scope(kvc_scope_options names) {
    const kvc_shape shape = geometry.shape();
    names.size = sizeof names;
    if (!names.model) names.model = "field";
    if (!names.shape) names.shape = &shape;
    ScopeHandle handle;
    EXPECT_EQ(kvc_scope_create(handle.out(), store, &names, &error), KVC_OK) << error.message;
    return handle;
  }
  SeqHandle create(uint32_t flags = 0) { return create_in(scope, flags); }
  SeqHandle create_in(const kvc_scope *in, uint32_t flags = 0) {
    auto options = sized<kvc_seq_options>();
    options.flags = flags;
    SeqHandle seq;
    EXPECT_EQ(kvc_seq_create(seq.out(), in, &options, &error), KVC_OK) << error.message;
    return seq;
  }
  uint32_t layer_count() const { return static_cast<uint32_t>(geometry.layers.size()); }
  std::vector<std::unique_ptr<Block>> blocks(uint64_t count) {
    std::vector<std::unique_ptr<Block>> all;
    for (uint32_t l = 0; l < layer_count(); l++) all.push_back(std::make_unique<Block>(geometry, Block::Part{l, 1, 0, geometry.layers[l].heads}, count, random));
    return all;
  }
  /// Tokens [begin, end) of all layers, with the ids given; ids alone where the two are equal.
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end, uint64_t writer) {
    const auto from = begin < end ? blocks(end - begin) : std::vector<std::unique_ptr<Block>>();
    std::vector<kvc_rows> rows;
    for (const auto &block : from) {
      block->fill([&](uint32_t layer, uint64_t row) { return model::stamp_of(writer, layer, begin + row); });
      rows.push_back(block->rows());
      rows.back().token_begin = begin, rows.back().token_count = end - begin;
    }
    return kvc_append(seq, tokens.data(), tokens.size(), rows.data(), rows.size(), nullptr, &error);
  }
  /// A sequence of these ids, all its rows from one writer.
  SeqHandle stored(const std::vector<int32_t> &tokens, uint64_t writer) {
    SeqHandle seq = create();
    EXPECT_EQ(append(seq, tokens, 0, tokens.size(), writer), KVC_OK) << error.message;
    return seq;
  }
  SeqHandle match(const std::vector<int32_t> &tokens, uint64_t *length = nullptr, uint64_t lease_ms = 0) { return match_in(scope, tokens, length, lease_ms); }
  SeqHandle match_in(const kvc_scope *in, const std::vector<int32_t> &tokens, uint64_t *length = nullptr, uint64_t lease_ms = 0) {
    auto info = sized<kvc_match_info>();
    auto options = sized<kvc_seq_options>();
    options.lease_ms = lease_ms;
    SeqHandle seq;
    EXPECT_EQ(kvc_match(seq.out(), &info, in, tokens.data(), tokens.size(), &options, nullptr, &error), KVC_OK) << error.message;
    if (length) *length = info.tokens;
    return seq;
  }
  /// Empty: tokens [begin, begin + count) of every layer are the writers' and nothing else was touched.  `status`: what the gather came to; of
  /// one that failed the rows before result->done are held against the writers.
  std::string read(const kvc_seq *seq, uint64_t begin, uint64_t count, const Writers &writers, kvc_status *status = nullptr) {
    if (status) *status = KVC_OK;
    if (!count) return {};
    const auto to = blocks(count);
    std::vector<kvc_rows> rows;
    for (const auto &block : to) {
      rows.push_back(block->rows());
      rows.back().token_begin = begin, rows.back().token_count = count;
    }
    auto result = sized<kvc_result>();
    ErrorText why;
    const kvc_status got = kvc_gather(&result, seq, rows.data(), rows.size(), nullptr, &why);
    if (status) *status = got;
    if (got != KVC_OK) return status ? std::string() : std::string(why.message);
    for (const auto &block : to)
      if (const std::string wrong = block->mismatch([&](uint32_t layer, uint64_t row) { return model::stamp_of(writers(begin + row), layer, begin + row); }, count); !wrong.empty())
        return wrong;
    return {};
  }
  std::string read(const kvc_seq *seq, uint64_t begin, uint64_t count, uint64_t writer) {
    return read(seq, begin, count, [=](uint64_t) { return writer; });
  }
  kvc_store_info info() { return store_info(store); }
  kvc_metrics metrics() { return store_metrics(store); }
  kvc_seq_info info_of(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &error), KVC_OK) << error.message;
    return out;
  }
  kvc_status put(const kvc_scope *in, const std::string &key, const std::string &value) {
    kvc_bytes part{const_cast<char *>(value.data()), value.size()};
    kvc_object object{};
    object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
    return kvc_object_put(nullptr, in, &object, 1, nullptr, nullptr, &error);
  }
  bool exists(const kvc_scope *in, const std::string &key) {
    kvc_object object{};
    object.key = key.data(), object.key_size = key.size();
    EXPECT_EQ(kvc_object_exists(nullptr, in, &object, 1, nullptr, nullptr, &error), KVC_OK) << error.message;
    return object.status == KVC_OK;
  }
  /// The value of a key; "absent" where there is none.
  std::string get(const kvc_scope *in, const std::string &key) {
    std::string value(1 << 16, '\x5a');
    kvc_bytes part{value.data(), value.size()};
    kvc_object object{};
    object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
    return kvc_object_get(nullptr, in, &object, 1, nullptr, nullptr, &error) == KVC_OK ? value.substr(0, object.value_size) : "absent";
  }
  /// Values of somebody else, several times what the store holds: whatever nobody holds goes, and then they.
  void press() {
    const std::string value(64u << 10, 'p');
    const ScopeHandle others = make_scope([] {
      kvc_scope_options names{};
      names.model = "others";
      return names;
    }());
    for (uint64_t i = 0; i < 3 * info().memory_bytes / value.size(); i++) ASSERT_EQ(put(others, std::to_string(i), value), KVC_OK) << error.message;
    ASSERT_EQ(kvc_scope_clear(nullptr, others, nullptr, &error), KVC_OK) << error.message;
  }
};

}  // namespace kvc::field
