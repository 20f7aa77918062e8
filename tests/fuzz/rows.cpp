// Descriptions of rows against random shapes: a gather that is taken writes the elements it names, at the places they name, and nothing else; an
// append that is taken reads nothing else.  The places are counted here by the words of kvc/types.h, one element at a time.
#include <algorithm>
#include <map>
#include <memory>

#include "input.h"

namespace {

using namespace kvc::fuzz;

constexpr uint64_t kTokens = 40;

struct Model {
  kvc_layer layer{};
  uint32_t dtype, chunk;
  uint64_t element() const { return dtype == KVC_F32 ? 4 : dtype == KVC_F8_E4M3 ? 1 : 2; }
  uint64_t dim(bool is_k) const { return is_k ? layer.k_dim : layer.v_dim; }
};

Model model_of(Input &input) {
  const auto bits = input.number<uint32_t>();
  Model model;
  model.layer.count = 1 + bits % 3, model.layer.kind = KVC_LAYER_FULL, model.layer.kv_heads = 1 + bits / 4 % 3;
  model.layer.k_dim = 1 + bits / 16 % 9, model.layer.v_dim = 1 + bits / 256 % 9;
  model.dtype = 1 + bits / 4096 % 4, model.chunk = 16 * (1 + bits / 65536 % 2);
  return model;
}

/// The stored byte of an element; never the poison.
uint8_t stamp(bool is_k, uint64_t l, uint64_t t, uint64_t h, uint64_t d, uint64_t byte) {
  return static_cast<uint8_t>(1 + (is_k * 7 + l * 31 + t * 5 + h * 67 + d * 3 + byte * 101) % 150);
}

constexpr uint8_t kPoison = 0xEE;

struct Place {
  bool is_k;
  uint64_t l, t, h, d;
};

/// Every element of a run: its byte offset in the array, or nothing when the description makes no sense.
class Naive {
 public:
  Naive(const Model &model, const kvc_rows &rows, bool is_k) : model_(model), rows_(rows), array_(is_k ? rows.k : rows.v), is_k_(is_k) {}
  template <typename Visit>
  void visit(uint64_t token_count, const Visit &visit) const {
    const uint64_t e = model_.element(), heads = rows_.head_count ? rows_.head_count : model_.layer.kv_heads, dims = model_.dim(is_k_);
    const uint64_t group = array_.dim_group ? array_.dim_group : 1, groups = (dims + group - 1) / group;
    const uint64_t dim_stride = array_.dim_stride ? array_.dim_stride : group * e, head_stride = array_.head_stride ? array_.head_stride : groups * dim_stride;
    const uint64_t token_stride = array_.token_stride ? array_.token_stride : heads * head_stride, block_stride = array_.block_stride ? array_.block_stride : rows_.block_tokens * token_stride;
    for (uint64_t l = 0; l < rows_.layer_count; l++)
      for (uint64_t i = 0; i < token_count; i++) {
        const uint64_t slot = rows_.slot_begin + i;
        const uint64_t block = rows_.block_tokens ? static_cast<uint64_t>(rows_.blocks[slot / rows_.block_tokens]) : 0, in_block = rows_.block_tokens ? slot % rows_.block_tokens : slot;
        for (uint64_t h = 0; h < heads; h++)
          for (uint64_t d = 0; d < dims; d++)
            visit(l * array_.layer_stride + block * block_stride + in_block * token_stride + h * head_stride + d / group * dim_stride + d % group * e,
                  Place{is_k_, rows_.layer_begin + l, rows_.token_begin + i, rows_.head_begin + h, d});
      }
  }

 private:
  const Model &model_;
  const kvc_rows &rows_;
  const kvc_array &array_;
  const bool is_k_;
};

class Host {
 public:
  explicit Host(const Model &model) : model_(model) {
    KVC_INIT(&error);
    kvc_store_options options;
    KVC_INIT(&options);
    options.memory_bytes = options.open_bytes_max = 1 << 20;
    FUZZ_CHECK(kvc_open(&store, "mem:", &options, &error) == KVC_OK);
    kvc_shape shape;
    KVC_INIT(&shape);
    shape.dtype = model.dtype, shape.chunk_tokens = model.chunk, shape.layers = &model.layer, shape.layer_runs = 1;
    kvc_scope_options names;
    KVC_INIT(&names);
    names.model = "fuzz", names.shape = &shape;
    kvc_scope *scope = nullptr;
    FUZZ_CHECK(kvc_scope_create(&scope, store, &names, &error) == KVC_OK);
    kvc_seq_options seq_options;
    KVC_INIT(&seq_options);
    seq_options.flags = KVC_SEQ_PRIVATE;
    FUZZ_CHECK(kvc_seq_create(&seq, scope, &seq_options, &error) == KVC_OK);
    FUZZ_CHECK(kvc_scope_release(scope, &error) == KVC_OK);
  }
  ~Host() { FUZZ_CHECK(kvc_seq_release(seq, nullptr) == KVC_OK && kvc_close(store, nullptr) == KVC_OK); }
  /// The stamps of tokens [begin, end) in the plainest layout.
  void fill(uint64_t begin, uint64_t end) {
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_count = model_.layer.count, rows.token_begin = begin, rows.token_count = end - begin;
    std::vector<uint8_t> memory[2];
    for (const bool is_k : {true, false}) {
      kvc_array &array = is_k ? rows.k : rows.v;
      const uint64_t row = model_.layer.kv_heads * model_.dim(is_k) * model_.element();
      memory[is_k].resize(model_.layer.count * (end - begin) * row);
      array.data = memory[is_k].data(), array.bytes = memory[is_k].size(), array.layer_stride = (end - begin) * row;
      Naive(model_, rows, is_k).visit(end - begin, [&](uint64_t at, const Place &p) {
        for (uint64_t b = 0; b < model_.element(); b++) memory[is_k][at + b] = stamp(p.is_k, p.l, p.t, p.h, p.d, b);
      });
    }
    FUZZ_CHECK(kvc_append(seq, nullptr, 0, &rows, 1, nullptr, &error) == KVC_OK);
  }

  kvc_error error;
  kvc_store *store = nullptr;
  kvc_seq *seq = nullptr;

 private:
  const Model &model_;
};

struct Described {
  kvc_rows rows;
  std::vector<int32_t> table;
  std::unique_ptr<uint8_t[]> memory[2];  // exactly as long as it is said to be

  Described(Input &input, const Model &model, bool whole) {
    KVC_INIT(&rows);
    rows.layer_begin = static_cast<uint32_t>(input.count(3)), rows.layer_count = static_cast<uint32_t>(input.count(4));
    rows.head_begin = static_cast<uint32_t>(input.count(3)), rows.head_count = static_cast<uint32_t>(input.count(4));
    rows.token_begin = input.count(kTokens), rows.token_count = input.count(kTokens);
    if (whole) rows.layer_begin = 0, rows.layer_count = model.layer.count, rows.head_begin = rows.head_count = 0, rows.token_begin = 0, rows.token_count = kTokens;
    rows.slot_begin = input.count(4);
    if (input.number<uint8_t>() % 2) {
      rows.block_tokens = static_cast<uint32_t>(input.count(20));
      table.resize(input.below(50));
      for (int32_t &block : table) block = static_cast<int8_t>(input.number<uint8_t>()) / 2;
      rows.blocks = table.data(), rows.block_count = table.size();
    }
    const uint64_t e = model.element();
    for (const bool is_k : {true, false}) {
      kvc_array &array = is_k ? rows.k : rows.v;
      array.bytes = input.below(20000);
      memory[is_k].reset(new uint8_t[array.bytes]);
      std::memset(memory[is_k].get(), kPoison, array.bytes);
      array.data = input.number<uint8_t>() % 8 ? memory[is_k].get() : nullptr;
      array.dim_group = static_cast<uint32_t>(input.count(3));
      array.dim_stride = input.count(3) * e, array.head_stride = input.count(80) * e, array.token_stride = input.count(200) * e;
      array.block_stride = input.count(200) * 16 * e, array.layer_stride = input.count(200) * 64 * e;
    }
  }
};

void gather(Input &input, const Model &model, Host &host) {
  Described to(input, model, false);
  kvc_result result;
  KVC_INIT(&result);
  const kvc_status status = kvc_gather(&result, host.seq, &to.rows, 1, nullptr, &host.error);
  check_failure(status, host.error);
  const uint64_t tokens = to.rows.token_count == KVC_ALL ? kTokens - to.rows.token_begin : to.rows.token_count;
  for (const bool is_k : {true, false}) {
    const kvc_array &array = is_k ? to.rows.k : to.rows.v;
    std::vector<uint8_t> expected(array.bytes, kPoison);
    if (status == KVC_OK && array.data)
      Naive(model, to.rows, is_k).visit(tokens, [&](uint64_t at, const Place &p) {
        FUZZ_CHECK(at + model.element() <= array.bytes);
        for (uint64_t b = 0; b < model.element(); b++) {
          FUZZ_CHECK(expected[at + b] == kPoison);  // no two elements share an address
          expected[at + b] = stamp(p.is_k, p.l, p.t, p.h, p.d, b);
        }
      });
    FUZZ_CHECK(std::equal(expected.begin(), expected.end(), to.memory[is_k].get()));
  }
}

void append(Input &input, const Model &model) {
  Host host(model);
  Described from(input, model, input.number<uint8_t>() % 4);
  for (const bool is_k : {true, false})
    for (uint64_t i = 0; i < (is_k ? from.rows.k : from.rows.v).bytes; i++) from.memory[is_k][i] = static_cast<uint8_t>(i * 11 + is_k);
  const kvc_status status = kvc_append(host.seq, nullptr, 0, &from.rows, 1, nullptr, &host.error);
  check_failure(status, host.error);
  kvc_seq_info info;
  KVC_INIT(&info);
  FUZZ_CHECK(kvc_seq_get_info(&info, host.seq, &host.error) == KVC_OK);
  FUZZ_CHECK(status == KVC_OK || info.tokens == 0);
  if (status != KVC_OK) return;
  // Read back in the plainest layout, element by element.
  for (const bool is_k : {true, false}) {
    const kvc_array &array = is_k ? from.rows.k : from.rows.v;
    kvc_rows plain;
    KVC_INIT(&plain);
    plain.layer_begin = from.rows.layer_begin, plain.layer_count = from.rows.layer_count, plain.token_count = from.rows.token_count;
    plain.head_begin = from.rows.head_begin, plain.head_count = from.rows.head_count;
    const uint64_t heads = plain.head_count ? plain.head_count : model.layer.kv_heads, row = heads * model.dim(is_k) * model.element();
    std::vector<uint8_t> got(plain.layer_count * plain.token_count * row, kPoison);
    kvc_array &to = is_k ? plain.k : plain.v;
    to.data = got.data(), to.bytes = got.size(), to.layer_stride = plain.token_count * row;
    const kvc_status read = kvc_gather(nullptr, host.seq, &plain, 1, nullptr, &host.error);
    if (plain.head_count && plain.head_count != model.layer.kv_heads && read != KVC_OK) continue;  // the other heads are not there yet
    FUZZ_CHECK(read == KVC_OK);
    std::map<uint64_t, uint64_t> places;  // an element's number in the plain layout -> its offset in the other
    uint64_t number = 0;
    Naive(model, plain, is_k).visit(plain.token_count, [&](uint64_t at, const Place &) { places[number++] = at; });
    number = 0;
    Naive(model, from.rows, is_k).visit(from.rows.token_count, [&](uint64_t at, const Place &) {
      FUZZ_CHECK(at + model.element() <= array.bytes);
      FUZZ_CHECK(std::memcmp(got.data() + places[number++], from.memory[is_k].get() + at, model.element()) == 0);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  const Model model = model_of(input);
  if (input.number<uint8_t>() % 4 == 0) {
    append(input, model);
    return 0;
  }
  Host host(model);
  host.fill(0, kTokens);
  for (int i = 0; i < 4; i++) gather(input, model, host);
  return 0;
}
