// Offload and resume, in C++ with kvc.hpp: what offload.c does, and the same files.
//
//     c++ -std=c++17 offload.cpp $(pkg-config --cflags --libs kvc) -o offload
//     ./offload save FILE DUMP
//     ./offload resume FILE DUMP
#include <kvc/kvc.hpp>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace {

constexpr uint64_t saved_tokens = 300;

/// What the engine computed: k and v [layers, heads, tokens, dim] f16 and token_ids [tokens] i32 of a safetensors file.
struct Dump {
  std::string file;
  uint64_t layers, heads, tokens, dim, bytes;  // bytes: of a side
  char *k, *v;
  std::vector<int32_t> ids;

  explicit Dump(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    file.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t header_bytes = 0;
    if (file.size() > 8) std::memcpy(&header_bytes, file.data(), 8);
    if (file.size() <= 8 || header_bytes >= file.size() - 8) throw std::runtime_error(path + ": no safetensors file");
    const std::string header = file.substr(8, header_bytes);
    char *const body = &file[8 + header_bytes];
    const auto shape = numbers(header, "k", "\"shape\"", 4), k_at = numbers(header, "k", "\"data_offsets\"", 2), v_at = numbers(header, "v", "\"data_offsets\"", 2),
               ids_at = numbers(header, "token_ids", "\"data_offsets\"", 2);
    layers = shape[0], heads = shape[1], tokens = shape[2], dim = shape[3], bytes = k_at[1] - k_at[0];
    if (tokens <= saved_tokens || bytes != layers * heads * tokens * dim * 2) throw std::runtime_error(path + ": no dump of this kind");
    k = body + k_at[0], v = body + v_at[0];
    ids.resize(tokens);
    std::memcpy(ids.data(), body + ids_at[0], tokens * sizeof(int32_t));
  }
  static std::vector<uint64_t> numbers(const std::string &header, const std::string &tensor, const std::string &key, size_t count) {
    size_t at = header.find("\"" + tensor + "\":{");
    if (at != std::string::npos) at = header.find(key, at);
    if (at != std::string::npos) at = header.find('[', at);
    if (at == std::string::npos) throw std::runtime_error("the dump has no " + tensor);
    std::vector<uint64_t> out;
    for (size_t used = 0; out.size() < count; at += 1 + used) out.push_back(std::stoull(header.substr(at + 1, 24), &used));
    return out;
  }
  /// Tokens [begin, begin + count) where the engine keeps them.
  kvc_rows rows(uint64_t begin, uint64_t count) const {
    auto out = kvc::init<kvc_rows>();
    out.layer_count = static_cast<uint32_t>(layers);
    out.token_begin = out.slot_begin = begin, out.token_count = count;
    out.k.data = k, out.v.data = v;
    for (kvc_array *side : {&out.k, &out.v})
      side->bytes = bytes, side->token_stride = dim * 2, side->head_stride = tokens * dim * 2, side->layer_stride = heads * tokens * dim * 2;
    return out;
  }
  /// The first tokens of one side in an array that has tokens first are these.
  bool same(const char *side, const std::vector<char> &got) const {
    bool all = true;
    for (uint64_t l = 0; l < layers; l++)
      for (uint64_t t = 0; t < saved_tokens; t++)
        for (uint64_t h = 0; h < heads; h++)
          all = all && std::memcmp(&got[((l * saved_tokens + t) * heads + h) * dim * 2], side + ((l * heads + h) * tokens + t) * dim * 2, dim * 2) == 0;
    return all;
  }
};

void save(const kvc::Scope &scope, const Dump &dump, const std::string &path) {
  kvc::Seq seq = scope.create();
  const kvc_rows rows = dump.rows(0, saved_tokens);
  seq.append(dump.ids.data(), saved_tokens, &rows, 1);
  seq.save(path);
  std::printf("%llu tokens put aside\n", static_cast<unsigned long long>(saved_tokens));
}

bool resume(const kvc::Scope &scope, const Dump &dump, const std::string &path) {
  kvc::Seq seq = scope.restore(path);
  std::vector<char> k(dump.layers * saved_tokens * dump.heads * dump.dim * 2), v(k.size());
  auto packed = kvc::init<kvc_rows>();  // tokens first
  packed.layer_count = static_cast<uint32_t>(dump.layers), packed.token_count = saved_tokens;
  packed.k.data = k.data(), packed.v.data = v.data(), packed.k.bytes = packed.v.bytes = k.size();
  packed.k.layer_stride = packed.v.layer_stride = k.size() / dump.layers;
  seq.gather(&packed, 1);
  const bool equal = dump.same(dump.k, k) && dump.same(dump.v, v);
  const kvc_rows rest = dump.rows(saved_tokens, dump.tokens - saved_tokens);  // computed now
  seq.append(dump.ids.data() + saved_tokens, dump.tokens - saved_tokens, &rest, 1);
  auto info = kvc::init<kvc_match_info>();
  auto peek = kvc::init<kvc_seq_options>();
  peek.flags = KVC_SEQ_PEEK;
  scope.match(dump.ids.data(), dump.tokens, &info, &peek);
  std::printf("%llu of %llu tokens came back, %s; the next request finds %llu\n", static_cast<unsigned long long>(saved_tokens), static_cast<unsigned long long>(dump.tokens),
              equal ? "bit for bit" : "CHANGED", static_cast<unsigned long long>(info.tokens));
  return equal;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc == 4 ? argv[1] : "";
  if (what != "save" && what != "resume") {
    std::fprintf(stderr, "usage: offload save|resume FILE DUMP\n");
    return 2;
  }
  try {
    const Dump dump(argv[3]);
    kvc_layer layer{};
    layer.count = static_cast<uint32_t>(dump.layers), layer.kind = KVC_LAYER_FULL, layer.kv_heads = static_cast<uint32_t>(dump.heads);
    layer.k_dim = layer.v_dim = static_cast<uint32_t>(dump.dim);
    auto shape = kvc::init<kvc_shape>();
    shape.dtype = KVC_F16, shape.rope = KVC_ROPE_HALVES, shape.layers = &layer, shape.layer_runs = 1;
    auto options = kvc::init<kvc_scope_options>();
    options.model = "offload", options.shape = &shape;
    const kvc::Store store("mem:");
    const kvc::Scope scope = store.scope(options);
    if (what == "resume") return resume(scope, dump, argv[2]) ? 0 : 1;
    save(scope, dump, argv[2]);
    return 0;
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "offload: %s\n", failure.what());
    return 1;
  }
}
