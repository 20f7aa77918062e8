// Option structs of any size and content: taken as the headers say, or refused in one line, and what is refused has changed nothing.
#include "input.h"

namespace {

using namespace kvc::fuzz;

/// A struct as a host that knows more or less members would hand it in: on the heap, as long as its size says, no byte longer.
template <typename T>
class Sized {
 public:
  explicit Sized(Input &input) {
    const auto how = input.number<uint8_t>();
    size_ = how < 200 ? sizeof(T) : how < 230 ? 8 + input.below(sizeof(T)) : sizeof(T) + input.below(64);
    memory_.resize(size_ < 8 ? 8 : size_);
    input.bytes(memory_.data(), memory_.size());
    if (how < 100)  // mostly zero, as hosts have it
      for (size_t i = 0; i < memory_.size(); i++)
        if (memory_[i] < 128) memory_[i] = 0;
    uint32_t size = static_cast<uint32_t>(memory_.size());
    if (how == 255) size = input.number<uint32_t>() % 8;
    std::memcpy(memory_.data(), &size, 4);
  }
  /// Pointers and their counts are the test's to set; of one that is cut nothing is left.
  template <typename M>
  void set(size_t offset, M value) {
    if (offset + sizeof value <= memory_.size()) {
      std::memcpy(memory_.data() + offset, &value, sizeof value);
    } else if (offset < memory_.size()) {
      std::memset(memory_.data() + offset, 0, memory_.size() - offset);
    }
  }
  uint64_t get(size_t offset) const {
    uint64_t value = 0;
    if (offset + 8 <= memory_.size()) std::memcpy(&value, memory_.data() + offset, 8);
    return value;
  }
  const T *get() const { return reinterpret_cast<const T *>(memory_.data()); }

 private:
  size_t size_;
  std::vector<uint8_t> memory_;
};

struct Names {
  std::string tenant, model, revision, adapter, salt;
  explicit Names(Input &input) : tenant(input.text(9)), model(input.text(9)), revision(input.text(9)), adapter(input.text(300)), salt(input.text(99)) {}
};

kvc_store *open_one(Input &input, kvc_error &error) {
  Sized<kvc_store_options> options(input);
  options.set(offsetof(kvc_store_options, memory_bytes), options.get(offsetof(kvc_store_options, memory_bytes)) % (4u << 20));
  if (!options.get(offsetof(kvc_store_options, memory_bytes)))  // the default is a large part of the machine's: not to be populated
    options.set(offsetof(kvc_store_options, flags), static_cast<uint32_t>(options.get(offsetof(kvc_store_options, flags))) & ~static_cast<uint32_t>(KVC_OPEN_POPULATE));
  kvc_store *store = reinterpret_cast<kvc_store *>(8);
  const std::string uri = input.number<uint8_t>() % 16 ? "mem:" : input.text(20);
  const kvc_status status = kvc_open(&store, uri.c_str(), options.get(), &error);
  check_failure(status, error);
  FUZZ_CHECK((status == KVC_OK) == (store != nullptr));
  return store;
}

kvc_store *open_plain() {
  kvc_store_options options;
  KVC_INIT(&options);
  options.memory_bytes = 1 << 20;
  kvc_store *store = nullptr;
  FUZZ_CHECK(kvc_open(&store, "mem:", &options, nullptr) == KVC_OK);
  return store;
}

std::vector<kvc_layer> layers_of(Input &input) {
  std::vector<kvc_layer> layers(1 + input.below(4));
  for (kvc_layer &layer : layers) {
    input.bytes(&layer, sizeof layer);
    if (input.number<uint8_t>() % 8 == 0) continue;
    layer = {1 + layer.count % 4, 1 + layer.kind % 4, 1 + layer.kv_heads % 4, 1 + layer.k_dim % 64, 1 + layer.v_dim % 64, layer.rope_dim % 2 * 8, layer.window % 2 * 32, layer.k_dtype % 6, 0, {0, 0, 0}};
  }
  return layers;
}

kvc_scope *scope_of(Input &input, kvc_store *store, kvc_error &error) {
  const std::vector<kvc_layer> layers = layers_of(input);
  Sized<kvc_shape> shape(input);
  shape.set(offsetof(kvc_shape, layers), layers.data());
  shape.set(offsetof(kvc_shape, layer_runs), uint64_t{layers.size()});
  if (input.number<uint8_t>() % 8) {
    shape.set(offsetof(kvc_shape, dtype), uint32_t{1} + input.number<uint8_t>() % 5);
    shape.set(offsetof(kvc_shape, chunk_tokens), 16 * (input.number<uint8_t>() % 4));
    shape.set(offsetof(kvc_shape, rope), input.number<uint8_t>() % 4);
  }
  kvc_shape_info info;
  KVC_INIT(&info);
  const kvc_status checked = kvc_shape_check(&info, shape.get(), &error);
  check_failure(checked, error);
  const Names names(input);
  Sized<kvc_scope_options> options(input);
  options.set(offsetof(kvc_scope_options, tenant), names.tenant.c_str());
  options.set(offsetof(kvc_scope_options, model), names.model.c_str());
  options.set(offsetof(kvc_scope_options, revision), names.revision.c_str());
  options.set(offsetof(kvc_scope_options, adapter), names.adapter.c_str());
  options.set(offsetof(kvc_scope_options, salt), names.salt.data());
  options.set(offsetof(kvc_scope_options, salt_size), uint64_t{names.salt.size()});
  options.set(offsetof(kvc_scope_options, shape), input.number<uint8_t>() % 8 ? shape.get() : nullptr);
  options.set(offsetof(kvc_scope_options, precision), static_cast<const kvc_precision *>(nullptr));
  kvc_scope *scope = reinterpret_cast<kvc_scope *>(8);
  const kvc_status status = kvc_scope_create(&scope, store, options.get(), &error);
  check_failure(status, error);
  FUZZ_CHECK((status == KVC_OK) == (scope != nullptr));
  return scope;
}

void sequences(Input &input, kvc_scope *scope, kvc_error &error) {
  std::vector<kvc_extra> extras(input.below(3));
  const std::string data = input.text(80);
  for (kvc_extra &extra : extras) extra = {input.count(99), input.count(9), data.data(), data.size()};
  Sized<kvc_seq_options> options(input);
  options.set(offsetof(kvc_seq_options, extras), extras.data());
  options.set(offsetof(kvc_seq_options, extra_count), uint64_t{extras.size()});
  options.set(offsetof(kvc_seq_options, precision), static_cast<const kvc_precision *>(nullptr));
  kvc_seq *seq = reinterpret_cast<kvc_seq *>(8);
  kvc_status status = kvc_seq_create(&seq, scope, options.get(), &error);
  check_failure(status, error);
  FUZZ_CHECK((status == KVC_OK) == (seq != nullptr));
  const int32_t tokens[40] = {1, 2, 3};
  if (status == KVC_OK) {
    status = kvc_append(seq, tokens, input.below(40), nullptr, 0, nullptr, &error);
    check_failure(status, error);
    FUZZ_CHECK(kvc_seq_release(seq, &error) == KVC_OK);
  }
  Sized<kvc_call> call(input);
  call.set(offsetof(kvc_call, queue), static_cast<kvc_queue *>(nullptr));
  seq = nullptr;
  status = kvc_match(&seq, nullptr, scope, tokens, input.below(40), options.get(), call.get(), &error);
  check_failure(status, error);
  FUZZ_CHECK(kvc_seq_release(seq, &error) == KVC_OK);
}

void objects(Input &input, kvc_scope *scope, kvc_error &error) {
  Sized<kvc_object_options> options(input);
  options.set(offsetof(kvc_object_options, layout), static_cast<const kvc_rows *>(nullptr));
  const std::string key = input.text(70);
  std::string value = input.text(300);
  kvc_bytes part{value.data(), value.size()};
  kvc_object object{};
  object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
  kvc_status status = kvc_object_put(nullptr, scope, &object, 1, options.get(), nullptr, &error);
  check_failure(status, error);
  const bool held = status == KVC_OK;
  std::string got(value.size(), '\0');
  part.data = got.data();
  status = kvc_object_get(nullptr, scope, &object, 1, nullptr, nullptr, &error);
  check_failure(status, error);
  FUZZ_CHECK(!held || (status == KVC_OK && got == value && object.value_size == value.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  kvc_error error;
  KVC_INIT(&error);
  kvc_store *store = open_one(input, error);
  FUZZ_CHECK(kvc_close(store, nullptr) == KVC_OK);
  static kvc_store *const kept = open_plain();
  kvc_scope *scope = scope_of(input, kept, error);
  if (scope) {
    sequences(input, scope, error);
    objects(input, scope, error);
    FUZZ_CHECK(kvc_scope_clear(nullptr, scope, nullptr, &error) == KVC_OK);
    FUZZ_CHECK(kvc_scope_release(scope, &error) == KVC_OK);
  }
  kvc_store_info info;
  KVC_INIT(&info);
  FUZZ_CHECK(kvc_store_get_info(&info, kept, &error) == KVC_OK);
  FUZZ_CHECK(info.seq_count == 0 && info.memory_pinned == 0 && info.memory_used == 0);
  return 0;
}
