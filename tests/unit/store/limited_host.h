#pragma once
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "seam_store.h"
#include "store_info.h"

namespace kvc_test {

/// A store of one-layer chunks of 64 tokens and of objects, in several scopes, under a clock that moves when told to.
struct LimitedHost {
  static constexpr uint64_t chunk_tokens = 64, dim = 16;
  kvc::base::ManualClock clock;
  ErrorText error;
  StoreHandle store;
  std::vector<uint16_t> memory = std::vector<uint16_t>(64 * chunk_tokens * dim, 3);

  explicit LimitedHost(uint64_t memory_bytes = 2u << 20, const kvc_store_options *given = nullptr) {
    auto options = given ? *given : sized<kvc_store_options>();
    options.memory_bytes = options.open_bytes_max = memory_bytes;
    if (!options.lease_ms) options.lease_ms = 1000;
    store = open_with({.clock = &clock}, options);
  }
  kvc_status create(kvc_scope **out, const char *tenant, uint64_t bytes_max = 0, uint64_t ttl_ms = 0) {
    const kvc_layer layer = full_layers(1, 1, dim, dim);
    auto shape = sized<kvc_shape>();
    shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
    auto options = sized<kvc_scope_options>();
    options.tenant = tenant, options.model = "m", options.shape = &shape, options.bytes_max = bytes_max, options.ttl_ms = ttl_ms;
    return kvc_scope_create(out, store, &options, &error);
  }
  ScopeHandle scope(const char *tenant, uint64_t bytes_max = 0, uint64_t ttl_ms = 0) {
    kvc_scope *out = nullptr;
    EXPECT_EQ(create(&out, tenant, bytes_max, ttl_ms), KVC_OK) << error.message;
    return ScopeHandle(out);
  }
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &all, uint64_t begin, uint64_t end) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
    return kvc_append(seq, all.data() + begin, end - begin, &rows, 1, nullptr, &error);
  }
  /// A sequence with the first chunks of the prompt that `salt` names, found or appended.
  SeqHandle prompt(kvc_scope *scope, int32_t salt, uint64_t chunks, kvc_status *status = nullptr) {
    const auto all = ids(chunks * chunk_tokens, salt);
    SeqHandle seq;
    auto info = sized<kvc_match_info>();
    EXPECT_EQ(kvc_match(seq.out(), &info, scope, all.data(), all.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
    const kvc_status appended = info.tokens < all.size() ? append(seq, all, info.tokens, all.size()) : KVC_OK;
    if (status) *status = appended;
    else EXPECT_EQ(appended, KVC_OK) << error.message;
    return seq;
  }
  /// Chunks of the prompt that a match would find, which is no use of them.
  uint64_t found(kvc_scope *scope, int32_t salt, uint64_t chunks = 32) {
    const auto all = ids(chunks * chunk_tokens, salt);
    auto options = sized<kvc_seq_options>();
    options.flags = KVC_SEQ_PEEK;
    auto info = sized<kvc_match_info>();
    kvc_seq *none = nullptr;
    EXPECT_EQ(kvc_match(&none, &info, scope, all.data(), all.size(), &options, nullptr, &error), KVC_OK) << error.message;
    return info.tokens / chunk_tokens;
  }
  kvc_status gather(const kvc_seq *seq, uint64_t tokens) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = tokens;
    std::vector<uint16_t> out(tokens * dim);
    rows.k.data = out.data(), rows.k.bytes = out.size() * 2;
    return kvc_gather(nullptr, seq, &rows, 1, nullptr, &error);
  }
  kvc_status put(kvc_scope *scope, std::string_view key, uint64_t bytes, const kvc_object_options *options = nullptr) {
    std::vector<uint8_t> value(bytes, static_cast<uint8_t>(key.back()));
    const kvc_bytes part{value.data(), value.size()};
    kvc_object o{};
    o.key = key.data(), o.key_size = key.size(), o.parts = &part, o.part_count = 1;
    return kvc_object_put(nullptr, scope, &o, 1, options, nullptr, &error);
  }
  kvc_status put_ttl(kvc_scope *scope, std::string_view key, uint64_t bytes, uint64_t ttl_ms) {
    auto options = sized<kvc_object_options>();
    options.ttl_ms = ttl_ms;
    return put(scope, key, bytes, &options);
  }
  kvc_status get(kvc_scope *scope, std::string_view key) {
    std::vector<uint8_t> value(64 << 10);
    const kvc_bytes part{value.data(), value.size()};
    kvc_object o{};
    o.key = key.data(), o.key_size = key.size(), o.parts = &part, o.part_count = 1;
    const kvc_status status = kvc_object_get(nullptr, scope, &o, 1, nullptr, nullptr, &error);
    for (uint64_t i = 0; status == KVC_OK && i < o.value_size; i++) EXPECT_EQ(value[i], static_cast<uint8_t>(key.back()));
    return status;
  }
  bool exists(kvc_scope *scope, std::string_view key, LeaseHandle *lease = nullptr) {
    kvc_object o{};
    o.key = key.data(), o.key_size = key.size();
    auto options = sized<kvc_object_options>();
    options.flags = lease ? static_cast<uint32_t>(KVC_OBJECT_LEASE) : 0u;
    auto result = sized<kvc_result>();
    EXPECT_EQ(kvc_object_exists(&result, scope, &o, 1, &options, nullptr, &error), KVC_OK) << error.message;
    if (lease) *lease->out() = result.lease;
    return o.status == KVC_OK;
  }
  kvc_scope_info info(kvc_scope *scope) {
    auto out = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_scope_get_info(&out, scope, &error), KVC_OK) << error.message;
    return out;
  }
  kvc_store_info info() { return store_info(store); }
  kvc_metrics metrics() { return store_metrics(store); }
};

}  // namespace kvc_test
