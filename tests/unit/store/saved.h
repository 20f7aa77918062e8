#pragma once
#include <algorithm>
#include <optional>

#include "../io/faulty_files.h"
#include "../io/memory_files.h"
#include "seam_store.h"

namespace kvc_test {

/// Three layers of two geometries, no row of which is as wide as what sections are aligned to; chunks of 16 tokens.
struct SavedModel {
  static constexpr uint32_t layers = 3, chunk = 16;
  struct Layer {
    uint32_t heads, k_dim, v_dim, dtype;
  };
  static Layer layer(uint32_t l) { return l < 2 ? Layer{2, 7, 5, KVC_F16} : Layer{3, 8, 16, KVC_F32}; }
  static std::vector<kvc_layer> runs() { return {full_layers(2, 2, 7, 5), full_layers(1, 3, 8, 16, KVC_F32, KVC_F32)}; }
};

/// A store over a disk in memory, with one scope, that writes stamped rows and knows them again.
struct Saved {
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;

  explicit Saved(kvc::io::FileSystem &files, std::optional<kvc_store_options> options = {}, const char *model = "m", const std::vector<kvc_layer> &runs = SavedModel::runs(),
                 uint64_t metadata_bytes_max = UINT64_MAX) {
    kvc::store::Seams seams;
    seams.files = &files;
    seams.metadata_bytes_max = metadata_bytes_max;
    store = open_with(seams, options ? *options : Host::options_of(4u << 20));
    auto shape = sized<kvc_shape>();
    shape.dtype = KVC_F16, shape.chunk_tokens = SavedModel::chunk, shape.rope = KVC_ROPE_HALVES, shape.layers = runs.data(), shape.layer_runs = runs.size();
    auto o = sized<kvc_scope_options>();
    o.tenant = "t", o.model = model, o.shape = &shape;
    EXPECT_EQ(kvc_scope_create(scope.out(), store, &o, &error), KVC_OK) << error.message;
  }

  SeqHandle create(kvc_seq_options options = sized<kvc_seq_options>()) {
    SeqHandle seq;
    EXPECT_EQ(kvc_seq_create(seq.out(), scope, &options, &error), KVC_OK) << error.message;
    return seq;
  }
  /// The bytes of rows [begin, end) of one side of a layer, tokens first.
  static std::vector<uint8_t> rows_of(uint64_t writer, bool is_k, uint32_t l, uint64_t begin, uint64_t end) {
    const SavedModel::Layer layer = SavedModel::layer(l);
    const uint32_t dim = is_k ? layer.k_dim : layer.v_dim;
    const uint64_t e = dtype_size(layer.dtype);
    std::vector<uint8_t> out;
    for (uint64_t t = begin; t < end; t++)
      for (uint32_t h = 0; h < layer.heads; h++)
        for (uint32_t d = 0; d < dim; d++) {
          const uint64_t bits = stamp(writer, is_k, l, t, h, d);
          const auto *bytes = reinterpret_cast<const uint8_t *>(&bits);
          out.insert(out.end(), bytes, bytes + e);
        }
    return out;
  }
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end, uint64_t writer = 1, uint32_t layer_begin = 0, uint32_t layer_end = SavedModel::layers) {
    std::vector<std::vector<uint8_t>> memory;
    std::vector<kvc_rows> rows;
    for (uint32_t l = layer_begin; l < layer_end && begin < end; l++) {
      auto r = sized<kvc_rows>();
      r.layer_begin = l, r.layer_count = 1, r.token_begin = begin, r.token_count = end - begin;
      for (kvc_array *array : {&r.k, &r.v}) {
        memory.push_back(rows_of(writer, array == &r.k, l, begin, end));
        array->data = memory.back().data(), array->bytes = memory.back().size();
      }
      rows.push_back(r);
    }
    return kvc_append(seq, tokens.data(), tokens.size(), rows.data(), rows.size(), nullptr, &error);
  }
  /// Every row of a layer, element by element; the memory behind it is as it was.
  void expect_rows(const kvc_seq *seq, uint64_t writer, const std::vector<uint64_t> &filled, const std::string &what = "") {
    for (uint32_t l = 0; l < SavedModel::layers; l++) {
      if (filled[l] == 0) continue;
      auto r = sized<kvc_rows>();
      r.layer_begin = l, r.layer_count = 1, r.token_count = KVC_ALL;
      const auto k = rows_of(writer, true, l, 0, filled[l]), v = rows_of(writer, false, l, 0, filled[l]);
      auto got_k = poisoned(k.size() + 64), got_v = poisoned(v.size() + 64);
      r.k.data = got_k.data(), r.k.bytes = got_k.size(), r.v.data = got_v.data(), r.v.bytes = got_v.size();
      ASSERT_EQ(kvc_gather(nullptr, seq, &r, 1, nullptr, &error), KVC_OK) << what << ": layer " << l << ": " << error.message;
      for (const auto &[got, wanted] : {std::pair{&got_k, &k}, std::pair{&got_v, &v}}) {
        const std::vector<uint8_t> poison = poisoned(got->size());
        EXPECT_TRUE(std::equal(wanted->begin(), wanted->end(), got->begin())) << what << ": layer " << l << ", " << (got == &got_k ? "K" : "V");
        EXPECT_TRUE(std::equal(got->begin() + static_cast<int64_t>(wanted->size()), got->end(), poison.begin() + static_cast<int64_t>(wanted->size()))) << what << ": behind layer " << l;
      }
    }
  }
  kvc_status save(const kvc_seq *seq, const char *path = "disk/a") { return kvc_seq_save(seq, path, nullptr, &error); }
  kvc_status restore(SeqHandle &seq, const char *path = "disk/a", const kvc_seq_options *options = nullptr) {
    return kvc_seq_restore(seq.out(), scope, path, options, nullptr, &error);
  }
  kvc_seq_info info(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &error), KVC_OK) << error.message;
    return out;
  }
  /// All that the store says of itself, to see whether a call changed anything.
  std::vector<uint64_t> counts() {
    auto i = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&i, store, &error), KVC_OK) << error.message;
    auto s = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_scope_get_info(&s, scope, &error), KVC_OK) << error.message;
    return {i.memory_used, i.memory_pinned, i.seq_count, i.lease_count, i.chunk_count, i.object_count, s.chunk_count, s.seq_count, s.bytes_host};
  }
  uint64_t match_length(const std::vector<int32_t> &tokens, const kvc_seq_options *options = nullptr) {
    auto i = sized<kvc_match_info>();
    SeqHandle seq;
    EXPECT_EQ(kvc_match(seq.out(), &i, scope, tokens.data(), tokens.size(), options, nullptr, &error), KVC_OK) << error.message;
    return i.tokens;
  }
};

}  // namespace kvc_test
