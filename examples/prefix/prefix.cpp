// The prefix cache of a serving engine, in C++ with kvc.hpp: what prefix.c does, whose first comment says it, and the same output.
//
//     c++ -std=c++17 prefix.cpp $(pkg-config --cflags --libs kvc) -o prefix
//     ./prefix DUMP
#include <kvc/kvc.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace {

using U64 = unsigned long long;  // what %llu prints

constexpr uint64_t text_tokens = 512, block_count = 64, block_tokens = 16, table_size = text_tokens / block_tokens, answer_tokens = 48;
constexpr std::array<uint64_t, 3> parts_at = {text_tokens, 200, 416};

struct Request {
  const char *what;
  size_t tenant, text;
  uint64_t tokens;
  size_t second;  // the text of a second answer; 0: none
};

constexpr Request requests[] = {
    {"A, first turn", 0, 0, 300, 0},       {"B, same system prompt", 0, 1, 280, 0}, {"A, two answers", 0, 0, 416, 2},
    {"A, goes on from one", 0, 0, 500, 0}, {"A, from the other", 0, 2, 512, 0},     {"the same again", 0, 2, 512, 0},
    {"B, second turn", 0, 1, 400, 0},      {"another tenant", 1, 0, 300, 0},        {"the same again", 1, 0, 300, 0},
};

class Engine {
 public:
  using Table = std::vector<int32_t>;

  uint64_t layers, heads, tokens, dim;
  std::array<std::vector<int32_t>, 3> ids;

  explicit Engine(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    if (!read()) throw std::runtime_error(path + ": no such file, or no dump of this kind");
    pool_.resize(layers * 2 * block_count * block_tokens * heads * row_);
  }
  void poison() { std::fill(pool_.begin(), pool_.end(), '\xA5'); }

  void compute(const Table &table, size_t text, uint64_t begin, uint64_t end) {
    for (uint64_t l = 0; l < layers; l++)
      for (uint64_t side = 0; side < 2; side++)
        for (uint64_t t = begin; t < end; t++)
          for (uint64_t h = 0; h < heads; h++) std::memcpy(pooled(table, l, side, t, h), computed(text, l, side, t, h), row_);
  }
  void check(const Table &table, const Request &request, uint64_t end) {
    for (uint64_t l = 0; l < layers; l++)
      for (uint64_t side = 0; side < 2; side++)
        for (uint64_t t = 0; t < end; t++)
          for (uint64_t h = 0; h < heads; h++)
            if (std::memcmp(pooled(table, l, side, t, h), computed(request.text, l, side, t, h), row_) != 0)
              throw std::runtime_error(std::string(request.what) + ": " + "kv"[side] + " of token " + std::to_string(t) + ", layer " + std::to_string(l) +
                                       " is not what was computed");
  }
  /// Tokens [begin, begin + count) in the pool.
  kvc_rows rows(const Table &table, uint64_t begin, uint64_t count) {
    const uint64_t block = block_tokens * heads * row_, side = block_count * block;
    auto out = kvc::init<kvc_rows>();
    out.layer_count = static_cast<uint32_t>(layers);
    out.token_begin = out.slot_begin = begin, out.token_count = count;  // equal: the table is of the whole sequence
    out.block_tokens = block_tokens, out.blocks = table.data(), out.block_count = table.size();
    out.k.data = pool_.data(), out.v.data = pool_.data() + side;
    out.k.bytes = pool_.size(), out.v.bytes = pool_.size() - side;
    out.k.layer_stride = out.v.layer_stride = 2 * side;
    out.k.block_stride = out.v.block_stride = block;
    return out;
  }

 private:
  std::string file_;
  const char *sides_[2];    // k and v of the dump
  uint64_t row_;            // bytes of a head
  std::vector<char> pool_;  // [layers][K, V][blocks][16][heads][dim]

  bool read() {
    uint64_t header_bytes = 0;
    if (file_.size() > 8) std::memcpy(&header_bytes, file_.data(), 8);
    if (header_bytes == 0 || header_bytes > file_.size() - 8) return false;
    const std::string header = file_.substr(8, header_bytes);
    const uint64_t left = file_.size() - 8 - header_bytes;
    const auto shape = numbers(header, "k", "\"shape\"", 4);
    if (shape.empty() || shape[2] < text_tokens || std::any_of(shape.begin(), shape.end(), [](uint64_t n) { return n == 0 || n >= 1 << 15; })) return false;
    layers = shape[0], heads = shape[1], tokens = shape[2], dim = shape[3], row_ = dim * 2;
    const auto tensor = [&](const char *name, uint64_t bytes) -> const char * {
      const auto at = numbers(header, name, "\"data_offsets\"", 2);
      return at.empty() || at[0] > at[1] || at[1] > left || at[1] - at[0] != bytes ? nullptr : file_.data() + 8 + header_bytes + at[0];
    };
    sides_[0] = tensor("k", layers * heads * tokens * row_), sides_[1] = tensor("v", layers * heads * tokens * row_);
    const char *const dump_ids = tensor("token_ids", tokens * sizeof(int32_t));
    if (!sides_[0] || !sides_[1] || !dump_ids) return false;
    for (size_t text = 0; text < ids.size(); text++) {
      ids[text].resize(text_tokens);
      std::memcpy(ids[text].data(), dump_ids, text_tokens * sizeof(int32_t));
      for (uint64_t t = parts_at[text]; t < text_tokens; t++) ids[text][t] += static_cast<int32_t>(text);
    }
    return true;
  }
  /// The numbers behind `"tensor":{ ... "key":[`; empty: they are not there.
  static std::vector<uint64_t> numbers(const std::string &header, const std::string &tensor, const std::string &key, size_t count) {
    size_t at = header.find("\"" + tensor + "\":{");
    if (at != std::string::npos) at = header.find(key, at);
    if (at != std::string::npos) at = header.find('[', at);
    if (at == std::string::npos) return {};
    std::vector<uint64_t> out;
    const char *from = header.c_str() + at;
    for (char *end; out.size() < count; from = end) {
      out.push_back(std::strtoull(from + 1, &end, 10));
      if (end == from + 1) return {};
    }
    return out;
  }
  /// What the engine computes for a head of a token.
  const char *computed(size_t text, uint64_t layer, uint64_t side, uint64_t token, uint64_t head) const {
    const uint64_t from = token < parts_at[text] ? token : (token + text * tokens / 4) % tokens;
    return sides_[side] + ((layer * heads + head) * tokens + from) * row_;
  }
  /// Where its pool has that.
  char *pooled(const Table &table, uint64_t layer, uint64_t side, uint64_t token, uint64_t head) {
    const uint64_t block = (layer * 2 + side) * block_count + static_cast<uint64_t>(table[token / block_tokens]);
    return &pool_[((block * block_tokens + token % block_tokens) * heads + head) * row_];
  }
};

void append(Engine &engine, kvc::Seq &seq, const Engine::Table &table, size_t text, uint64_t begin, uint64_t end) {
  engine.compute(table, text, begin, end);
  const kvc_rows rows = engine.rows(table, begin, end - begin);
  seq.append(&engine.ids[text][begin], end - begin, &rows, 1);
}

/// Two answers to one prompt.  In the pool they share the blocks of the prompt, which are full, and have blocks of their own behind.
void answer_twice(Engine &engine, kvc::Seq &seq, const Request &request, const Engine::Table &table, const int32_t *free_blocks) {
  Engine::Table second = table;
  std::copy(free_blocks + request.tokens / block_tokens, free_blocks + table_size, second.begin() + static_cast<ptrdiff_t>(request.tokens / block_tokens));
  kvc::Seq fork = seq.fork();
  for (uint64_t t = request.tokens; t < request.tokens + answer_tokens; t++) {
    append(engine, seq, table, request.text, t, t + 1);
    append(engine, fork, second, request.second, t, t + 1);
  }
}

/// How many tokens were found.
uint64_t serve(Engine &engine, const kvc::Scope &scope, size_t number) {
  const Request &request = requests[number];
  std::array<int32_t, block_count> blocks;  // all of the pool, shuffled: the first half is the table, the other is free
  for (size_t i = 0; i < block_count; i++) blocks[i] = static_cast<int32_t>((37 * i + 11 * number) % block_count);
  const Engine::Table table(blocks.begin(), blocks.begin() + table_size);
  engine.poison();
  auto info = kvc::init<kvc_match_info>();
  auto options = kvc::init<kvc_seq_options>();
  options.tokens_max = request.tokens - 1;  // the engine needs the logits of the last token: leave one to compute
  kvc::Seq seq = scope.match(engine.ids[request.text].data(), request.tokens, &info, &options);
  if (info.tokens > 0) {
    const kvc_rows rows = engine.rows(table, 0, info.tokens);
    seq.gather(&rows, 1);
  }
  engine.check(table, request, info.tokens);
  append(engine, seq, table, request.text, info.tokens, request.tokens);
  if (request.second) answer_twice(engine, seq, request, table, &blocks[table_size]);
  std::printf("%-21s  %3llu tokens, %3llu found, %3llu computed\n", request.what, U64{request.tokens}, U64{info.tokens}, U64{request.tokens - info.tokens});
  return info.tokens;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: prefix DUMP\n");
    return 2;
  }
  try {
    Engine engine(argv[1]);
    kvc_layer layer{};
    layer.count = static_cast<uint32_t>(engine.layers), layer.kind = KVC_LAYER_FULL, layer.kv_heads = static_cast<uint32_t>(engine.heads);
    layer.k_dim = layer.v_dim = static_cast<uint32_t>(engine.dim);
    auto shape = kvc::init<kvc_shape>();
    shape.dtype = KVC_F16, shape.rope = KVC_ROPE_HALVES, shape.layers = &layer, shape.layer_runs = 1;
    auto options = kvc::init<kvc_scope_options>();
    options.model = "prefix", options.shape = &shape;
    const kvc::Store store("mem:");
    std::vector<kvc::Scope> tenants;
    for (const char *tenant : {"one", "two"}) options.tenant = tenant, tenants.push_back(store.scope(options));
    uint64_t found = 0, tokens = 0;
    for (size_t i = 0; i < std::size(requests); i++) found += serve(engine, tenants[requests[i].tenant], i), tokens += requests[i].tokens;
    std::printf("%llu of %llu tokens were found, %llu %%\n", U64{found}, U64{tokens}, U64{100 * found / tokens});
    return 0;
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "prefix: %s\n", failure.what());
    return 1;
  }
}
