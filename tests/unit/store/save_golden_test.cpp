#include <sstream>

#include "golden/vectors.h"
#include "saved.h"

/// Save files as another program makes them from the text of the format: ours are the same to the byte, and theirs are restored.
namespace {

using namespace kvc_test;

struct Vector {
  struct Step {
    uint32_t layer;
    uint64_t begin, end;
  };
  std::vector<kvc_layer> runs, layers;  // and one entry a layer of the part
  std::vector<Step> steps;
  kvc_shape shape = sized<kvc_shape>();
  std::vector<uint64_t> filled;
  std::vector<int32_t> tokens;
  std::vector<golden::Bytes> extra_data, k_rows, v_rows;
  std::vector<kvc_extra> extras;
  kvc_seq_options options = sized<kvc_seq_options>();
  std::string file;

  explicit Vector(const golden::Record &record) {
    for (const std::string &line : record.list("run")) {
      kvc_layer layer{};
      std::istringstream(line) >> layer.count >> layer.kind >> layer.kv_heads >> layer.k_dim >> layer.v_dim >> layer.rope_dim >> layer.window >> layer.k_dtype >> layer.v_dtype;
      runs.push_back(layer);
      layers.insert(layers.end(), layer.count, layer);
    }
    for (const std::string &line : record.list("part")) {
      std::istringstream(line) >> options.layer_begin >> options.layer_count >> options.head_begin >> options.head_count;
      layers = {layers.begin() + options.layer_begin, layers.begin() + options.layer_begin + options.layer_count};
    }
    for (const std::string &line : record.list("step")) {
      Step step{};
      std::istringstream(line) >> step.layer >> step.begin >> step.end;
      steps.push_back(step);
    }
    shape.dtype = static_cast<uint32_t>(record.number("dtype")), shape.chunk_tokens = static_cast<uint32_t>(record.number("chunk_tokens"));
    shape.rope = static_cast<uint32_t>(record.number("rope")), shape.layers = runs.data(), shape.layer_runs = runs.size();
    std::istringstream rows(record.text("filled"));
    for (uint64_t n; rows >> n;) filled.push_back(n);
    const golden::Bytes ids = record.bytes("ids");
    tokens.resize(ids.size() / 4);
    if (!ids.empty()) std::memcpy(tokens.data(), ids.data(), ids.size());
    for (const std::string &line : record.list("extra")) {
      kvc_extra extra{};
      std::string data;
      std::istringstream(line) >> extra.token_begin >> extra.token_count >> data;
      extra_data.push_back(golden::unhex(data));
      extras.push_back(extra);
    }
    for (size_t i = 0; i < extras.size(); i++) extras[i].data = extra_data[i].data(), extras[i].data_size = extra_data[i].size();
    for (const std::string &line : record.list("k_rows")) k_rows.push_back(golden::unhex(line));
    for (const std::string &line : record.list("v_rows")) v_rows.push_back(golden::unhex(line));
    options.flags = record.number("private") ? KVC_SEQ_PRIVATE : 0;
    options.first_position = record.number("first_position");
    options.extras = extras.data(), options.extra_count = extras.size();
    const auto write_id = record.array<16>("write_id");
    std::copy(write_id.begin(), write_id.end(), options.write_id);
    file.assign(record.number("size"), 0);
    for (const std::string &line : record.list("bytes")) {
      const size_t space = line.find(' ');
      const golden::Bytes bytes = golden::unhex(line.substr(space + 1));
      file.replace(std::stoull(line), bytes.size(), reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
  }
  /// Each vector has a full layer, and window and state layers hold it back no more than they do a sequence.
  uint64_t length() const {
    uint64_t least = UINT64_MAX;
    for (size_t l = 0; l < layers.size(); l++)
      if (layers[l].kind == KVC_LAYER_FULL) least = std::min(least, filled[l]);
    return least;
  }
  /// The part of a layer's bytes that a step brings: rows are by token, snapshots one behind the other.
  std::span<uint8_t> part(std::vector<golden::Bytes> &of, size_t step) const {
    const auto &[layer, begin, end] = steps[step];
    const auto of_layer = [layer = layer](const Step &s) { return s.layer == layer; };
    const bool state = layers[layer].kind == KVC_LAYER_STATE;
    const auto count = static_cast<uint64_t>(std::count_if(steps.begin(), steps.end(), of_layer)), number = static_cast<uint64_t>(std::count_if(steps.begin(), steps.begin() + static_cast<int64_t>(step), of_layer));
    const uint64_t bytes = of[layer].size() / (state ? count : filled[layer]);
    return state ? std::span(of[layer]).subspan(number * bytes, bytes) : std::span(of[layer]).subspan(begin * bytes, (end - begin) * bytes);
  }
  kvc_rows rows(size_t step, std::vector<golden::Bytes> &k, std::vector<golden::Bytes> &v) const {
    auto r = sized<kvc_rows>();
    r.layer_begin = steps[step].layer, r.layer_count = 1, r.token_begin = steps[step].begin, r.token_count = steps[step].end - steps[step].begin;
    const auto of_k = part(k, step), of_v = part(v, step);
    r.k.data = of_k.data(), r.k.bytes = of_k.size();
    if (!of_v.empty()) r.v.data = of_v.data(), r.v.bytes = of_v.size();
    r.layer_begin += options.layer_begin;
    if (layers[steps[step].layer].kv_heads > 1) r.head_begin = options.head_begin, r.head_count = options.head_count;
    return r;
  }
  /// How to restore it: into a sequence of the same part.
  kvc_seq_options part_options() const {
    auto out = sized<kvc_seq_options>();
    out.layer_begin = options.layer_begin, out.layer_count = options.layer_count, out.head_begin = options.head_begin, out.head_count = options.head_count;
    return out;
  }
};

struct GoldenHost {
  ErrorText error;
  StoreHandle store;
  ScopeHandle scope;
  GoldenHost(MemoryFiles &disk, const Vector &vector) {
    kvc::store::Seams seams;
    seams.files = &disk;
    store = open_with(seams, Host::options_of(4u << 20));
    auto o = sized<kvc_scope_options>();
    o.tenant = "t", o.model = "golden", o.shape = &vector.shape;
    EXPECT_EQ(kvc_scope_create(scope.out(), store, &o, &error), KVC_OK) << error.message;
  }
};

TEST(SaveGolden, what_is_saved_is_to_the_byte_what_the_format_says) {
  for (const golden::Record &record : golden::read("saves.txt")) {
    Vector vector(record);
    MemoryFiles disk;
    GoldenHost host(disk, vector);
    SeqHandle seq;
    ASSERT_EQ(kvc_seq_create(seq.out(), host.scope, &vector.options, &host.error), KVC_OK) << host.error.message;
    if (!vector.tokens.empty()) {
      ASSERT_EQ(kvc_append(seq, vector.tokens.data(), vector.tokens.size(), nullptr, 0, nullptr, &host.error), KVC_OK) << host.error.message;
    }
    for (size_t i = 0; i < vector.steps.size(); i++) {
      const kvc_rows r = vector.rows(i, vector.k_rows, vector.v_rows);
      ASSERT_EQ(kvc_append(seq, nullptr, 0, &r, 1, nullptr, &host.error), KVC_OK) << host.error.message;
    }
    ASSERT_EQ(kvc_seq_save(seq, "disk/a", nullptr, &host.error), KVC_OK) << host.error.message;
    const std::string file = disk.content("a");
    ASSERT_EQ(file.size(), vector.file.size());
    for (size_t at = 0; at < file.size(); at++) ASSERT_EQ(file[at], vector.file[at]) << "byte " << at;
  }
}

TEST(SaveGolden, what_the_format_says_is_restored) {
  for (const golden::Record &record : golden::read("saves.txt")) {
    const Vector vector(record);
    MemoryFiles disk;
    disk.put("a", vector.file);
    GoldenHost host(disk, vector);
    SeqHandle seq;
    const kvc_seq_options part = vector.part_options();
    ASSERT_EQ(kvc_seq_restore(seq.out(), host.scope, "disk/a", &part, nullptr, &host.error), KVC_OK) << host.error.message;
    auto info = sized<kvc_seq_info>();
    ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK) << host.error.message;
    EXPECT_EQ(info.tokens, vector.length());
    EXPECT_EQ(info.tokens_given, vector.tokens.size());
    std::vector<golden::Bytes> k, v;
    for (size_t l = 0; l < vector.layers.size(); l++) {
      k.push_back(poisoned(vector.k_rows[l].size())), v.push_back(poisoned(vector.v_rows[l].size()));
      if (vector.layers[l].kind == KVC_LAYER_STATE) continue;
      uint64_t begin = 0;  // what was left out is zero in the vector
      for (const Vector::Step &step : vector.steps)
        if (step.layer == l && step.begin) begin = step.begin;
      for (auto *side : {&k.back(), &v.back()})
        if (begin) std::fill_n(side->begin(), side->size() / vector.filled[l] * begin, 0);
    }
    for (size_t i = 0; i < vector.steps.size(); i++) {
      const kvc_rows r = vector.rows(i, k, v);
      ASSERT_EQ(kvc_gather(nullptr, seq, &r, 1, nullptr, &host.error), KVC_OK) << i << ": " << host.error.message;
    }
    for (size_t l = 0; l < vector.layers.size(); l++) {
      EXPECT_TRUE(k[l] == vector.k_rows[l]) << "layer " << l;
      EXPECT_TRUE(v[l] == vector.v_rows[l]) << "layer " << l;
    }
  }
}

}  // namespace
