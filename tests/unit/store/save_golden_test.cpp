#include <sstream>

#include "golden/vectors.h"
#include "saved.h"

/// Save files as another program makes them from the text of the format: ours are the same to the byte, and theirs are restored.
namespace {

using namespace kvc_test;

struct Vector {
  std::vector<kvc_layer> runs;
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
  kvc_rows rows(uint32_t layer, std::vector<uint8_t> &k, std::vector<uint8_t> &v) const {
    auto r = sized<kvc_rows>();
    r.layer_begin = layer, r.layer_count = 1, r.token_count = filled[layer];
    r.k.data = k.data(), r.k.bytes = k.size(), r.v.data = v.data(), r.v.bytes = v.size();
    return r;
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
    for (uint32_t l = 0; l < vector.filled.size(); l++) {
      if (vector.filled[l] == 0) continue;
      const kvc_rows r = vector.rows(l, vector.k_rows[l], vector.v_rows[l]);
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
    ASSERT_EQ(kvc_seq_restore(seq.out(), host.scope, "disk/a", nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
    auto info = sized<kvc_seq_info>();
    ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK) << host.error.message;
    EXPECT_EQ(info.tokens, *std::min_element(vector.filled.begin(), vector.filled.end()));
    EXPECT_EQ(info.tokens_given, vector.tokens.size());
    for (uint32_t l = 0; l < vector.filled.size(); l++) {
      if (vector.filled[l] == 0) continue;
      auto k = poisoned(vector.k_rows[l].size()), v = poisoned(vector.v_rows[l].size());
      const kvc_rows r = vector.rows(l, k, v);
      ASSERT_EQ(kvc_gather(nullptr, seq, &r, 1, nullptr, &host.error), KVC_OK) << host.error.message;
      EXPECT_TRUE(k == vector.k_rows[l]) << "layer " << l;
      EXPECT_TRUE(v == vector.v_rows[l]) << "layer " << l;
    }
  }
}

}  // namespace
