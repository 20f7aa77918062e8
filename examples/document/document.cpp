// Questions about a long document, in C++ with kvc.hpp: what document.c does, whose first comment says it, and the same output.
//
//     c++ -std=c++17 document.cpp $(pkg-config --cflags --libs kvc) -o document
//     ./document DUMP
#include <kvc/kvc.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace {

using U64 = unsigned long long;  // what %llu prints

constexpr uint64_t step = 512, question_tokens = 16, passage_tokens = 64;
constexpr double bound = 0.01;  // why: document.c

class Dump {
 public:
  uint64_t layers, heads, query_heads, tokens, positions, dim, document;
  std::vector<int32_t> ids;

  explicit Dump(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    if (!read()) throw std::runtime_error(path + ": no such file, or no dump of this kind");
  }
  /// Tokens [begin, end) as they lie in the dump.
  kvc_rows rows(uint64_t begin, uint64_t end) const {
    auto out = kvc::init<kvc_rows>();
    out.layer_count = static_cast<uint32_t>(layers);
    out.token_begin = out.slot_begin = begin, out.token_count = end - begin;
    out.k.data = k_, out.v.data = v_;
    for (kvc_array *side : {&out.k, &out.v}) {
      side->token_stride = dim * 2, side->head_stride = tokens * dim * 2, side->layer_stride = heads * tokens * dim * 2;
      side->bytes = layers * side->layer_stride;
    }
    return out;
  }
  std::vector<float> query(uint64_t layer, uint64_t head, uint64_t token) const { return floats(q_, layer, head, token); }
  std::vector<float> model(uint64_t layer, uint64_t head, uint64_t token) const { return floats(attn_out_, layer, head, token); }

 private:
  std::string file_;
  char *k_, *v_, *q_, *attn_out_;

  bool read() {
    uint64_t header_bytes = 0;
    if (file_.size() > 8) std::memcpy(&header_bytes, file_.data(), 8);
    if (header_bytes == 0 || header_bytes > file_.size() - 8) return false;
    const std::string header = file_.substr(8, header_bytes);
    const uint64_t left = file_.size() - 8 - header_bytes;
    const auto k = numbers(header, "k", "\"shape\"", 4), q = numbers(header, "q", "\"shape\"", 4);
    const auto wild = [](uint64_t n) { return n == 0 || n >= 1 << 15; };
    if (k.empty() || q.empty() || std::any_of(k.begin(), k.end(), wild) || std::any_of(q.begin(), q.end(), wild)) return false;
    if (q[0] != k[0] || q[1] % k[1] != 0 || q[2] % question_tokens != 0 || q[2] + 2 * passage_tokens > k[2] || q[3] != k[3]) return false;
    layers = k[0], heads = k[1], tokens = k[2], dim = k[3], query_heads = q[1], positions = q[2], document = tokens - positions;
    const auto tensor = [&](const char *name, uint64_t bytes) -> char * {
      const auto at = numbers(header, name, "\"data_offsets\"", 2);
      return at.empty() || at[0] > at[1] || at[1] > left || at[1] - at[0] != bytes ? nullptr : &file_[8 + header_bytes + at[0]];
    };
    const uint64_t side = layers * heads * tokens * dim * 2, queries = layers * query_heads * positions * dim * 2;
    k_ = tensor("k", side), v_ = tensor("v", side), q_ = tensor("q", queries), attn_out_ = tensor("attn_out", queries);
    const char *const dump_ids = tensor("token_ids", tokens * sizeof(int32_t));
    if (!k_ || !v_ || !q_ || !attn_out_ || !dump_ids) return false;
    ids.resize(tokens);
    std::memcpy(ids.data(), dump_ids, tokens * sizeof(int32_t));
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
  std::vector<float> floats(const char *tensor, uint64_t layer, uint64_t head, uint64_t token) const {
    std::vector<float> out(dim);
    for (uint64_t i = 0; i < dim; i++) {
      uint16_t half;
      std::memcpy(&half, tensor + (((layer * query_heads + head) * positions + token - document) * dim + i) * 2, sizeof half);
      const int exponent = half >> 10 & 31, fraction = half & 1023;
      out[i] = std::ldexp(static_cast<float>(exponent ? 1024 + fraction : fraction), std::max(exponent, 1) - 25);
      if (half >> 15) out[i] = -out[i];
    }
    return out;
  }
};

/// A question, and what is computed for it.
class Question {
 public:
  double worst = 0;
  std::vector<double> mass;  // of the passages

  Question(const Dump &dump, uint64_t number)
      : mass(dump.document / passage_tokens), dump_(dump), number_(number), end_(dump.document + number * question_tokens),
        k_(dump.heads * dump.dim * end_), v_(k_.size()) {}

  /// All queries in one layer.
  void look(const kvc::Seq &seq, uint64_t layer) {
    gather(seq, layer);
    for (uint64_t head = 0; head < dump_.query_heads; head++)
      for (uint64_t token = end_ - question_tokens; token < end_; token++) {
        const uint64_t kv_head = head / (dump_.query_heads / dump_.heads);
        const std::vector<float> weights = attend(dump_.query(layer, head, token), kv_head, token + 1);
        const double off = relative_error(weights, kv_head, dump_.model(layer, head, token));
        if (!(off <= bound)) {
          char said[128];
          std::snprintf(said, sizeof said, "question %llu: layer %llu, head %llu, token %llu is off by %.3f, the bound is %.2f", U64{number_}, U64{layer},
                        U64{head}, U64{token}, off, bound);
          throw std::runtime_error(said);
        }
        worst = std::max(worst, off);
        for (uint64_t t = 0; t < mass.size() * passage_tokens; t++) mass[t / passage_tokens] += weights[t];
      }
  }

 private:
  const Dump &dump_;
  uint64_t number_, end_;
  std::vector<float> k_, v_;  // of a layer: [head][dim][token], [head][token][dim]

  void gather(const kvc::Seq &seq, uint64_t layer) {
    auto rows = kvc::init<kvc_rows>();
    rows.layer_begin = static_cast<uint32_t>(layer), rows.layer_count = 1, rows.token_count = end_;
    rows.k.data = k_.data(), rows.v.data = v_.data();
    rows.k.bytes = rows.v.bytes = k_.size() * sizeof(float);
    rows.k.dtype = rows.v.dtype = KVC_F32;
    rows.k.head_stride = rows.v.head_stride = dump_.dim * end_ * sizeof(float);
    rows.k.token_stride = sizeof(float), rows.k.dim_stride = end_ * sizeof(float);
    rows.v.token_stride = dump_.dim * sizeof(float), rows.v.dim_stride = sizeof(float);
    seq.gather(&rows, 1);
  }
  /// The weights of one query over the tokens seen.
  std::vector<float> attend(const std::vector<float> &query, uint64_t head, uint64_t seen) const {
    const float scale = 1 / std::sqrt(static_cast<float>(dump_.dim));
    std::vector<float> out(end_);
    for (uint64_t i = 0; i < dump_.dim; i++)
      for (uint64_t t = 0; t < seen; t++) out[t] += query[i] * scale * k_[(head * dump_.dim + i) * end_ + t];
    const auto last = out.begin() + static_cast<ptrdiff_t>(seen);
    const float top = *std::max_element(out.begin(), last);
    std::transform(out.begin(), last, out.begin(), [top](float score) { return std::exp(score - top); });
    const float sum = std::accumulate(out.begin(), last, 0.0F);
    std::transform(out.begin(), last, out.begin(), [sum](float weight) { return weight / sum; });
    return out;
  }
  double relative_error(const std::vector<float> &weights, uint64_t head, const std::vector<float> &model) const {
    double off = 0, all = 0;
    for (uint64_t i = 0; i < dump_.dim; i++) {
      float out = 0;
      for (uint64_t t = 0; t < end_; t++) out += weights[t] * v_[(head * end_ + t) * dump_.dim + i];
      off += static_cast<double>(out - model[i]) * (out - model[i]), all += static_cast<double>(model[i]) * model[i];
    }
    return std::sqrt(off / all);
  }
};

void append(const Dump &dump, kvc::Seq &seq, uint64_t begin, uint64_t end) {
  const kvc_rows rows = dump.rows(begin, end);
  seq.append(&dump.ids[begin], end - begin, &rows, 1);
}

void ask(const Dump &dump, const kvc::Scope &scope, uint64_t number) {
  const uint64_t end = dump.document + number * question_tokens;
  auto info = kvc::init<kvc_match_info>();
  auto options = kvc::init<kvc_seq_options>();
  options.tokens_max = end - 1;  // the model needs the last token's logits to answer: leave one to compute
  kvc::Seq seq = scope.match(dump.ids.data(), end, &info, &options);
  append(dump, seq, info.tokens, end);  // computed now
  Question question(dump, number);
  for (uint64_t layer = 0; layer < dump.layers; layer++) question.look(seq, layer);
  const auto best = std::max_element(question.mass.begin() + 1, question.mass.end());
  std::printf("question %llu: %llu tokens, %llu found, %llu computed; off by %.3f; looks at passage %llu, %.1f %%\n", U64{number}, U64{end}, U64{info.tokens},
              U64{end - info.tokens}, question.worst, static_cast<U64>(best - question.mass.begin()),
              100 * *best / static_cast<double>(dump.layers * dump.query_heads * question_tokens));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: document DUMP\n");
    return 2;
  }
  try {
    const Dump dump(argv[1]);
    kvc_layer layer{};
    layer.count = static_cast<uint32_t>(dump.layers), layer.kind = KVC_LAYER_FULL, layer.kv_heads = static_cast<uint32_t>(dump.heads);
    layer.k_dim = layer.v_dim = static_cast<uint32_t>(dump.dim);
    auto shape = kvc::init<kvc_shape>();
    shape.dtype = KVC_F16, shape.rope = KVC_ROPE_HALVES, shape.layers = &layer, shape.layer_runs = 1;
    auto options = kvc::init<kvc_scope_options>();
    options.model = "document", options.shape = &shape;
    const kvc::Store store("mem:");
    const kvc::Scope scope = store.scope(options);
    kvc::Seq seq = scope.create();
    uint64_t steps = 0;
    for (uint64_t t = 0; t < dump.document; t += step, steps++) append(dump, seq, t, std::min(t + step, dump.document));
    seq.release();  // what is sealed stays
    std::printf("document: %llu tokens in %llu steps\n", U64{dump.document}, U64{steps});
    for (uint64_t number = 1; number <= dump.positions / question_tokens; number++) ask(dump, scope, number);
    return 0;
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "document: %s\n", failure.what());
    return 1;
  }
}
