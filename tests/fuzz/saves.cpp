// Saved files that were edited, cut, lengthened and signed again, or are anything at all: restored as they say, or refused with nothing changed.
#include <algorithm>

#include "input.h"
#include "kernels/rows.h"
#include "store/store.h"
#include "unit/io/memory_files.h"

namespace {

using namespace kvc::fuzz;

constexpr uint64_t kTokens = 40;

kvc_test::MemoryFiles g_disk;

std::vector<kvc_layer> layers_of(bool is_pieced) {
  const kvc_layer full{2, KVC_LAYER_FULL, 2, 6, 6, 0, 0, 0, 0, {0, 0, 0}}, window{1, KVC_LAYER_WINDOW, 1, 6, 6, 0, 20, 0, 0, {0, 0, 0}}, state{1, KVC_LAYER_STATE, 2, 30, 9, 0, 0, 0, 0, {0, 0, 0}};
  return is_pieced ? std::vector{full, window, state} : std::vector{full};
}

/// A layer of what is saved, by its number in the shape, and its first head there.
struct Layer {
  kvc_layer layer;
  uint32_t number, head_begin;
};

/// Rows [begin, end) of one layer, and the memory that they are in.
struct LayerRows {
  std::vector<uint8_t> k, v;
  kvc_rows rows;

  LayerRows(const Layer &of, uint64_t begin, uint64_t end, uint8_t fill) {
    const auto &[layer, number, head_begin] = of;
    const bool state = layer.kind == KVC_LAYER_STATE;
    const uint64_t count = state ? 1 : end - begin, element = state ? 1 : 2;
    k.assign(count * layer.kv_heads * layer.k_dim * element, fill), v.assign(count * layer.kv_heads * layer.v_dim * element, fill);
    for (size_t i = 0; fill && i < k.size(); i++) k[i] = static_cast<uint8_t>(i * 7 + number + fill);
    KVC_INIT(&rows);
    rows.layer_begin = number, rows.layer_count = 1, rows.head_begin = head_begin, rows.head_count = layer.kv_heads, rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = k.data(), rows.k.bytes = k.size(), rows.v.data = v.data(), rows.v.bytes = v.size();
  }
};

/// A store with a sequence that no restore may touch.
struct Host {
  const std::vector<kvc_layer> runs;
  std::vector<Layer> layers;  // of the part
  kvc_seq_options part;
  kvc_error error;
  kvc_store *store = nullptr;
  kvc_scope *scope = nullptr;
  kvc_seq *mine = nullptr;
  std::vector<uint64_t> before;

  /// Of a part: the second head of all layers behind the first.
  explicit Host(bool is_pieced, bool is_part = false) : runs(layers_of(is_pieced)) {
    KVC_INIT(&part);
    if (is_part) part.layer_begin = 1, part.layer_count = is_pieced ? 3 : 1, part.head_begin = part.head_count = 1;
    uint32_t number = 0;
    for (const kvc_layer &run : runs)
      for (uint32_t i = 0; i < run.count; i++, number++) {
        const bool split = is_part && run.kv_heads > 1;
        if (!is_part || number > 0) layers.push_back({run, number, split ? 1u : 0u});
        if (split && number > 0) layers.back().layer.kv_heads = 1;
      }
    KVC_INIT(&error);
    kvc_store_options options;
    KVC_INIT(&options);
    options.memory_bytes = options.open_bytes_max = 1 << 20;
    kvc::store::Seams seams;
    seams.files = &g_disk;
    uint64_t token = 0;
    kvc::base::Error why;
    FUZZ_CHECK(kvc::store::Store::open(&token, "mem:", options, seams, why) == KVC_OK);
    store = reinterpret_cast<kvc_store *>(token);
    kvc_shape shape;
    KVC_INIT(&shape);
    shape.dtype = KVC_F16, shape.chunk_tokens = 16, shape.layers = runs.data(), shape.layer_runs = runs.size();
    kvc_scope_options names;
    KVC_INIT(&names);
    names.model = "fuzz", names.shape = &shape;
    FUZZ_CHECK(kvc_scope_create(&scope, store, &names, &error) == KVC_OK);
    kvc_seq_options seq_options = part;
    seq_options.lease_ms = KVC_FOREVER, seq_options.flags = KVC_SEQ_PRIVATE;
    FUZZ_CHECK(kvc_seq_create(&mine, scope, &seq_options, &error) == KVC_OK);
    append(mine, 0, 20, 200);
    before = counts();
  }
  Host(const Host &) = delete;
  ~Host() { FUZZ_CHECK(kvc_close(store, nullptr) == KVC_OK); }
  void append(kvc_seq *seq, uint64_t begin, uint64_t end, uint8_t fill) {
    int32_t tokens[kTokens];
    for (uint64_t i = 0; i < kTokens; i++) tokens[i] = static_cast<int32_t>(i * 3);
    for (uint32_t l = 0; l < layers.size(); l++) {
      const LayerRows from(layers[l], begin, end, fill);
      FUZZ_CHECK(kvc_append(seq, l ? nullptr : tokens + begin, l ? 0 : end - begin, &from.rows, 1, nullptr, &error) == KVC_OK);
    }
  }
  std::vector<uint64_t> counts() {
    kvc_store_info info;
    KVC_INIT(&info);
    FUZZ_CHECK(kvc_store_get_info(&info, store, &error) == KVC_OK);
    return {info.memory_used, info.memory_pinned, info.seq_count, info.chunk_count};
  }
  void check_untouched() {
    FUZZ_CHECK(counts() == before && g_disk.open_count() == 0);
    for (uint32_t l = 0; l < layers.size(); l++) {
      const LayerRows wanted(layers[l], 0, 20, 200);
      LayerRows got(layers[l], 0, 20, 0);
      FUZZ_CHECK(kvc_gather(nullptr, mine, &got.rows, 1, nullptr, &error) == KVC_OK && got.k == wanted.k && got.v == wanted.v);
    }
  }
};

/// Two sealed chunks, open rows, an image behind some tokens, snapshots at the end of a chunk and of the rows.
std::string saved(bool is_pieced, bool is_part) {
  Host host(is_pieced, is_part);
  const kvc_extra extra{3, 20, "image", 5};
  kvc_seq_options options = host.part;
  options.extras = &extra, options.extra_count = 1;
  kvc_seq *seq = nullptr;
  FUZZ_CHECK(kvc_seq_create(&seq, host.scope, &options, &host.error) == KVC_OK);
  host.append(seq, 0, 16, 3);
  host.append(seq, 16, kTokens, 3);
  FUZZ_CHECK(kvc_seq_save(seq, "disk/good", nullptr, &host.error) == KVC_OK);
  return g_disk.content("good");
}

uint64_t table_end(const std::string &file) {
  uint64_t end = 0;
  if (file.size() >= 32) std::memcpy(&end, file.data() + 24, 8);
  return end;
}

/// The sums of header and table as a forger makes them.
void sign(std::string &file) {
  if (file.size() < 528) return;
  const auto sum = [&](size_t bytes) { return kvc::kernels::table().sum(reinterpret_cast<const uint8_t *>(file.data()), bytes); };
  const uint64_t header = sum(504);
  std::memcpy(file.data() + 504, &header, 8);
  if (table_end(file) > file.size() - 16) return;
  const uint64_t table = sum(table_end(file));
  std::memcpy(file.data() + file.size() - 16, &table, 8);
}

std::string file_of(Input &input, uint8_t how, const std::string &good) {
  std::string file = good;
  if (how % 16 == 15) {
    file.resize(input.left());
    input.bytes(file.data(), file.size());
    return file;
  }
  for (int edits = how % 8; edits > 0 && !input.empty(); edits--) {
    const size_t at = input.below(input.number<uint8_t>() % 2 ? table_end(good) : file.size()), bytes = 1 + input.below(8);
    if (at + bytes <= file.size()) input.bytes(file.data() + at, bytes);
  }
  if (how & 8) file.resize(input.below(2) ? input.below(file.size() + 1) : file.size() + input.below(100));
  if (how & 16) sign(file);
  return file;
}

void check_restored(Host &host, kvc_seq *seq) {
  kvc_seq_info info;
  KVC_INIT(&info);
  FUZZ_CHECK(kvc_seq_get_info(&info, seq, &host.error) == KVC_OK);
  FUZZ_CHECK(info.tokens <= 4096 && info.tokens_held == info.tokens && info.tokens_sealed <= info.tokens && info.tokens_end <= info.tokens);
  for (uint32_t l = 0; l < host.layers.size(); l++)
    for (uint64_t end = 1; end <= info.tokens; end++) {
      LayerRows got(host.layers[l], end - 1, end, 0);
      const kvc_status status = kvc_gather(nullptr, seq, &got.rows, 1, nullptr, &host.error);
      check_failure(status, host.error);
      const uint32_t kind = host.layers[l].layer.kind;
      FUZZ_CHECK(status == KVC_OK || (kind != KVC_LAYER_FULL && (status == KVC_ERR_GONE || status == KVC_ERR_NO_SNAPSHOT || status == KVC_ERR_RANGE)));
    }
  FUZZ_CHECK(kvc_store_verify(nullptr, host.store, nullptr, &host.error) == KVC_OK);
  FUZZ_CHECK(kvc_seq_truncate(seq, info.tokens_end, &host.error) == KVC_OK);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string good[] = {saved(false, false), saved(true, false), saved(false, true), saved(true, true)};
  static Host hosts[] = {Host(false), Host(true), Host(false, true), Host(true, true)};
  Input input(data, size);
  const auto how = input.number<uint8_t>();
  const int which = how >> 5 & 3;  // window and state layers too; a part alone
  Host &host = hosts[which];
  g_disk.put("file", file_of(input, how, good[which]));
  auto *seq = reinterpret_cast<kvc_seq *>(8);
  const kvc_status status = kvc_seq_restore(&seq, host.scope, "disk/file", &host.part, nullptr, &host.error);
  check_failure(status, host.error);
  FUZZ_CHECK((status == KVC_OK) == (seq != nullptr));
  FUZZ_CHECK(g_disk.content("file") != good[which] || status == KVC_OK);
  if (seq) {
    check_restored(host, seq);
    FUZZ_CHECK(kvc_seq_release(seq, &host.error) == KVC_OK);
    FUZZ_CHECK(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error) == KVC_OK);
  }
  host.check_untouched();
  return 0;
}
