#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kvc/kvc.h"

/// A host as tests write it: over the public calls alone.
namespace kvc_test {

struct ErrorText : kvc_error {
  ErrorText() { KVC_INIT(static_cast<kvc_error *>(this)); }
  std::string text() const { return message; }
};

inline kvc_layer full_layers(uint32_t count, uint32_t heads, uint32_t k_dim, uint32_t v_dim, uint32_t k_dtype = 0, uint32_t v_dtype = 0) {
  return {count, KVC_LAYER_FULL, heads, k_dim, v_dim, 0, 0, k_dtype, v_dtype, {0, 0, 0}};
}

template <typename T>
T sized() {
  T t;
  KVC_INIT(&t);
  return t;
}

inline std::vector<int32_t> ids(size_t count, int32_t salt = 0) {
  std::vector<int32_t> out(count);
  const uint32_t shift = static_cast<uint32_t>(salt) * 100003;  // ids are any 32 bits
  for (size_t i = 0; i < count; i++) out[i] = static_cast<int32_t>(static_cast<uint32_t>(i * 7 + 3) + shift);
  return out;
}

/// Ends its handle.  Every failure to make or release one fails the test.
template <typename H, kvc_status (*Release)(H *, kvc_error *)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(H *h) : h_(h) {}
  Handle(Handle &&from) noexcept : h_(std::exchange(from.h_, nullptr)) {}
  Handle &operator=(Handle &&from) noexcept {
    reset();
    h_ = std::exchange(from.h_, nullptr);
    return *this;
  }
  ~Handle() { reset(); }
  void reset() {
    if (!h_) return;
    EXPECT_EQ(Release(std::exchange(h_, nullptr), nullptr), KVC_OK);
  }
  H *release() { return std::exchange(h_, nullptr); }
  H **out() {
    reset();
    return &h_;
  }
  operator H *() const { return h_; }

 private:
  H *h_ = nullptr;
};
using StoreHandle = Handle<kvc_store, kvc_close>;
using ScopeHandle = Handle<kvc_scope, kvc_scope_release>;
using SeqHandle = Handle<kvc_seq, kvc_seq_release>;
using LeaseHandle = Handle<kvc_lease, kvc_lease_release>;
using ViewHandle = Handle<kvc_view, kvc_view_release>;

/// A scope of `model` for chunks of these layers; without layers for objects alone.
inline ScopeHandle make_scope(kvc_store *store, const char *model, const std::vector<kvc_layer> &layers, uint32_t dtype = KVC_F16, uint32_t chunk_tokens = 0,
                              uint64_t bytes_max = 0) {
  auto shape = sized<kvc_shape>();
  shape.dtype = dtype, shape.chunk_tokens = chunk_tokens, shape.layers = layers.data(), shape.layer_runs = layers.size();
  auto options = sized<kvc_scope_options>();
  options.model = model, options.shape = layers.empty() ? nullptr : &shape, options.bytes_max = bytes_max;
  ErrorText error;
  ScopeHandle scope;
  EXPECT_EQ(kvc_scope_create(scope.out(), store, &options, &error), KVC_OK) << error.message;
  return scope;
}

/// A store with one scope.
struct Host {
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;

  explicit Host(std::vector<kvc_layer> layers, uint32_t dtype = KVC_F16, uint32_t chunk_tokens = 0, uint64_t memory_bytes = 64u << 20,
                uint32_t flags = 0)
      : Host(options_of(memory_bytes, flags), layers, dtype, chunk_tokens) {}
  Host(const kvc_store_options &options, const std::vector<kvc_layer> &layers, uint32_t dtype, uint32_t chunk_tokens) {
    EXPECT_EQ(kvc_open(store.out(), "mem:", &options, &error), KVC_OK) << error.message;
    scope = make_scope("test", layers, dtype, chunk_tokens);
  }
  static kvc_store_options options_of(uint64_t memory_bytes, uint32_t flags = 0) {
    auto options = sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes;
    options.flags = flags;
    return options;
  }
  ScopeHandle make_scope(const char *model, const std::vector<kvc_layer> &layers, uint32_t dtype = KVC_F16, uint32_t chunk_tokens = 0) {
    return kvc_test::make_scope(store, model, layers, dtype, chunk_tokens);
  }
  SeqHandle create(uint32_t flags = 0) {
    auto options = sized<kvc_seq_options>();
    options.flags = flags;
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_seq_create(&out, scope, &options, &error), KVC_OK) << error.message;
    return SeqHandle(out);
  }
  SeqHandle match(const std::vector<int32_t> &tokens, uint64_t *length = nullptr) {
    auto info = sized<kvc_match_info>();
    kvc_seq *out = nullptr;
    EXPECT_EQ(kvc_match(&out, &info, scope, tokens.data(), tokens.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
    if (length) *length = info.tokens;
    return SeqHandle(out);
  }
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &tokens, const std::vector<kvc_rows> &rows) {
    return kvc_append(seq, tokens.empty() ? nullptr : tokens.data(), tokens.size(), rows.empty() ? nullptr : rows.data(), rows.size(),
                      nullptr, &error);
  }
  kvc_status gather(const kvc_seq *seq, const std::vector<kvc_rows> &rows, kvc_result *result = nullptr) {
    return kvc_gather(result, seq, rows.data(), rows.size(), nullptr, &error);
  }
};

/// The bits every element is stamped with: who wrote it, which side, layer, token, head and dim.
inline uint64_t stamp(uint64_t writer, bool is_k, uint64_t layer, uint64_t token, uint64_t head, uint64_t dim) {
  uint64_t x = writer;
  for (const uint64_t part : {static_cast<uint64_t>(is_k), layer, token, head, dim}) {
    x = (x ^ part) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
  }
  return x;
}

/// Memory that is recognised when it was written to.
inline std::vector<uint8_t> poisoned(uint64_t bytes) {
  std::vector<uint8_t> memory(bytes);
  for (uint64_t i = 0; i < bytes; i++) memory[i] = static_cast<uint8_t>(0xA5 ^ i * 131 ^ i >> 7);
  return memory;
}

inline uint64_t dtype_size(uint32_t dtype) { return dtype == KVC_F32 ? 4 : dtype == KVC_F16 || dtype == KVC_BF16 ? 2 : 1; }

}  // namespace kvc_test
