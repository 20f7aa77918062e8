// A C++ host of an installed kvc: open, scope, append, gather, compare, close; handles in unique_ptr, statuses as exceptions.  Prints "ok".
#include <kvc/kvc.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kLayers = 2, kHeads = 4, kDim = 32;
constexpr uint64_t kTokens = 77;

struct Release {
  void operator()(kvc_store *store) const { kvc_close(store, nullptr); }
  void operator()(kvc_scope *scope) const { kvc_scope_release(scope, nullptr); }
  void operator()(kvc_seq *seq) const { kvc_seq_release(seq, nullptr); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Release>;

struct Error : kvc_error {
  Error() : kvc_error() { KVC_INIT(static_cast<kvc_error *>(this)); }
  void check(kvc_status result) const {
    if (result != KVC_OK) throw std::runtime_error(std::string(kvc_status_name(result)) + ": " + message);
  }
};

using Cache = std::vector<float>;

kvc_rows describe(Cache &k, Cache &v) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = kLayers;
  rows.token_count = kTokens;
  rows.k.data = k.data();
  rows.v.data = v.data();
  rows.k.bytes = rows.v.bytes = k.size() * sizeof(float);
  rows.k.layer_stride = rows.v.layer_stride = kTokens * kHeads * kDim * sizeof(float);
  return rows;
}

bool round_trip() {
  Error error;
  kvc_store_options limits;
  KVC_INIT(&limits);
  limits.memory_bytes = uint64_t{64} << 20;
  kvc_store *store = nullptr;
  error.check(kvc_open(&store, "mem:", &limits, &error));
  const Owned<kvc_store> own_store(store);

  kvc_layer layers = kvc_layer();
  layers.count = kLayers;
  layers.kind = KVC_LAYER_FULL;
  layers.kv_heads = kHeads;
  layers.k_dim = layers.v_dim = kDim;
  kvc_shape shape;
  KVC_INIT(&shape);
  shape.dtype = KVC_F32;
  shape.layers = &layers;
  shape.layer_runs = 1;
  kvc_scope_options names;
  KVC_INIT(&names);
  names.model = "installed";
  names.shape = &shape;
  kvc_scope *scope = nullptr;
  error.check(kvc_scope_create(&scope, store, &names, &error));
  const Owned<kvc_scope> own_scope(scope);

  const std::vector<int32_t> tokens(kTokens, 5);
  const size_t numbers = kLayers * kTokens * kHeads * kDim;
  Cache k(numbers), v(numbers), k_back(numbers), v_back(numbers);
  for (size_t i = 0; i < numbers; i++) k[i] = static_cast<float>(i), v[i] = -static_cast<float>(i) / 3;
  kvc_seq *seq = nullptr;
  error.check(kvc_seq_create(&seq, scope, nullptr, &error));
  const Owned<kvc_seq> own_seq(seq);
  kvc_rows rows = describe(k, v);
  error.check(kvc_append(seq, tokens.data(), tokens.size(), &rows, 1, nullptr, &error));
  rows = describe(k_back, v_back);
  error.check(kvc_gather(nullptr, seq, &rows, 1, nullptr, &error));
  return k == k_back && v == v_back;
}

}  // namespace

int main() {
  try {
    const bool equal = round_trip();
    std::puts(equal ? "ok" : "other bytes came back");
    return equal ? 0 : 1;
  } catch (const std::exception &failure) {
    std::puts(failure.what());
    return 1;
  }
}
