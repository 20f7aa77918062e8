#include "cli/selfcheck.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/bench_tools.h"
#include "cli/dump.h"
#include "kvc/kvc.h"

namespace kvc::cli {
namespace {

/// Thrown by a check that failed: a line that says where.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Selfcheck {
 public:
  Selfcheck(const Dump &dump, std::string folder) : dump_(dump), folder_(std::move(folder)), first_(memory_bytes(), nullptr), second_(memory_bytes(), nullptr) {
    KVC_INIT(&error_);
    layer_ = {dump.layers, KVC_LAYER_FULL, dump.heads, dump.dim, dump.dim, 0, 0, 0, 0, {0, 0, 0}};
    first_scope_ = scope_of(first_.store), second_scope_ = scope_of(second_.store);
  }
  void run();

 private:
  uint64_t memory_bytes() const { return 8 * 2 * dump_.side_bytes() + (64u << 20); }
  kvc_scope *scope_of(kvc_store *store) {
    kvc_shape shape;
    KVC_INIT(&shape);
    shape.dtype = KVC_F16, shape.layers = &layer_, shape.layer_runs = 1;
    kvc_scope_options options;
    KVC_INIT(&options);
    options.model = "selfcheck", options.shape = &shape;
    kvc_scope *scope;
    must(kvc_scope_create(&scope, store, &options, &error_), error_);
    return scope;
  }
  /// Rows [begin, end) as the dump has them, heads first.
  kvc_rows rows(uint64_t begin, uint64_t end, const void *k, const void *v) const {
    kvc_rows r;
    KVC_INIT(&r);
    r.layer_count = dump_.layers, r.token_begin = begin, r.token_count = end - begin, r.slot_begin = begin;
    for (kvc_array *array : {&r.k, &r.v}) {
      array->data = const_cast<void *>(array == &r.k ? k : v);
      array->bytes = dump_.side_bytes();
      array->token_stride = dump_.row_bytes(), array->head_stride = dump_.tokens * dump_.row_bytes(), array->layer_stride = dump_.heads * array->head_stride;
    }
    return r;
  }
  void append(kvc_seq *seq, uint64_t begin, uint64_t end, uint64_t step) {
    for (uint64_t at = begin; at < end; at += step) {
      const uint64_t to = std::min(at + step, end);
      const kvc_rows r = rows(at, to, dump_.k.data(), dump_.v.data());
      must(kvc_append(seq, dump_.ids.data() + at, to - at, &r, 1, nullptr, &error_), error_);
    }
  }
  /// `place` gives where an element of (layer, token, head) begins in what was gathered.
  template <typename F>
  void compare(const char *what, const std::vector<uint8_t> &k, const std::vector<uint8_t> &v, uint64_t tokens, F &&place) {
    for (uint64_t t = 0; t < tokens; t++)
      for (uint32_t l = 0; l < dump_.layers; l++)
        for (uint32_t h = 0; h < dump_.heads; h++)
          for (const bool is_k : {true, false}) {
            const uint8_t *wanted = (is_k ? dump_.k : dump_.v).data() + dump_.offset(l, t, h), *got = (is_k ? k : v).data() + place(l, t, h);
            if (std::memcmp(wanted, got, dump_.row_bytes()) == 0) continue;
            char where[160];
            std::snprintf(where, sizeof where, "%s: token %llu, layer %u, head %u: %s is not what was stored", what, static_cast<unsigned long long>(t), l, h, is_k ? "K" : "V");
            throw Wrong(where);
          }
    std::printf("ok   %-52s %llu tokens\n", what, static_cast<unsigned long long>(tokens));
  }
  void gather_heads_first(const char *what, const kvc_seq *seq, uint64_t tokens) {
    std::vector<uint8_t> k(dump_.side_bytes(), 0x5A), v(k);
    const kvc_rows r = rows(0, tokens, k.data(), v.data());
    must(kvc_gather(nullptr, seq, &r, 1, nullptr, &error_), error_);
    compare(what, k, v, tokens, [&](uint32_t l, uint64_t t, uint32_t h) { return dump_.offset(l, t, h); });
  }
  void gather_blocks(const char *what, const kvc_seq *seq, uint64_t tokens);
  void length_is(const char *what, const kvc_seq *seq, uint64_t tokens) {
    kvc_seq_info info;
    KVC_INIT(&info);
    must(kvc_seq_get_info(&info, seq, &error_), error_);
    if (info.tokens != tokens) throw Wrong(std::string(what) + ": it has " + std::to_string(info.tokens) + " tokens, not " + std::to_string(tokens));
  }
  kvc_seq *match(kvc_scope *scope, uint64_t *tokens) {
    kvc_match_info info;
    KVC_INIT(&info);
    kvc_seq *seq;
    must(kvc_match(&seq, &info, scope, dump_.ids.data(), dump_.ids.size(), nullptr, nullptr, &error_), error_);
    *tokens = info.tokens;
    return seq;
  }

  const Dump &dump_;
  const std::string folder_;
  kvc_error error_;
  kvc_layer layer_;
  StoreHandles first_, second_;
  kvc_scope *first_scope_, *second_scope_;
};

/// Blocks of 16 tokens in reversed order, [block][head][token], a pool for each layer.
void Selfcheck::gather_blocks(const char *what, const kvc_seq *seq, uint64_t tokens) {
  constexpr uint64_t block = 16;
  const uint64_t blocks = (tokens + block - 1) / block, block_bytes = dump_.heads * block * dump_.row_bytes(), layer_bytes = blocks * block_bytes;
  std::vector<int32_t> table(blocks);
  std::iota(table.rbegin(), table.rend(), 0);
  std::vector<uint8_t> k(dump_.layers * layer_bytes, 0x5A), v(k);
  kvc_rows r;
  KVC_INIT(&r);
  r.layer_count = dump_.layers, r.token_count = tokens, r.block_tokens = block, r.blocks = table.data(), r.block_count = blocks;
  r.k.data = k.data(), r.v.data = v.data(), r.k.bytes = r.v.bytes = k.size();
  r.k.layer_stride = r.v.layer_stride = layer_bytes, r.k.block_stride = r.v.block_stride = block_bytes;
  r.k.head_stride = r.v.head_stride = block * dump_.row_bytes(), r.k.token_stride = r.v.token_stride = dump_.row_bytes();
  must(kvc_gather(nullptr, seq, &r, 1, nullptr, &error_), error_);
  compare(what, k, v, tokens, [&](uint32_t l, uint64_t t, uint32_t h) {
    return l * layer_bytes + static_cast<uint64_t>(table[t / block]) * block_bytes + (h * block + t % block) * dump_.row_bytes();
  });
}

void Selfcheck::run() {
  const uint64_t n = dump_.tokens, prefill = n / 2, whole = n / 64 * 64;
  const std::string path = folder_ + "/kvc-selfcheck-" + std::to_string(getpid()) + ".kvc";
  kvc_seq *seq, *fork, *found, *back;
  uint64_t matched = 0;
  must(kvc_seq_create(&seq, first_scope_, nullptr, &error_), error_);
  append(seq, 0, prefill, prefill);
  append(seq, prefill, n, 1);  // as a decode goes
  length_is("append", seq, n);
  gather_heads_first("appended at once and token by token", seq, n);
  gather_blocks("gathered into blocks of 16", seq, n);
  found = match(first_scope_, &matched);
  if (matched != whole) throw Wrong("match: " + std::to_string(matched) + " tokens were found, " + std::to_string(whole) + " are stored in whole chunks");
  gather_heads_first("found again by its ids", found, matched);
  append(found, matched, n, 7);
  gather_heads_first("found, and appended to", found, n);
  must(kvc_seq_fork(&fork, seq, n / 3, &error_), error_);
  append(fork, n / 3, n, 50);
  gather_heads_first("forked inside a chunk, and appended to", fork, n);
  must(kvc_seq_save(seq, path.c_str(), nullptr, &error_), error_);
  const kvc_status restored = kvc_seq_restore(&back, second_scope_, path.c_str(), nullptr, nullptr, &error_);
  std::remove(path.c_str());
  must(restored, error_);
  length_is("restore", back, n);
  gather_heads_first("saved, and restored into another store", back, n);
  must(kvc_seq_release(match(second_scope_, &matched), &error_), error_);
  if (matched != whole) throw Wrong("restore: " + std::to_string(matched) + " tokens are found by their ids in the other store, not " + std::to_string(whole));
  for (kvc_store *store : {first_.store, second_.store}) {
    kvc_verify_info info;
    KVC_INIT(&info);
    must(kvc_store_verify(&info, store, nullptr, &error_), error_);
    std::printf("ok   every sum of a store                                 %llu pages\n", static_cast<unsigned long long>(info.pages_read));
  }
}

}  // namespace

int selfcheck_main(std::span<char *const> arguments) {
  std::string data, folder;
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string_view word = arguments[i];
    std::string *to = word == "--data" ? &data : word == "--folder" ? &folder : nullptr;
    if (!to || i + 1 == arguments.size()) {
      std::fprintf(stderr, "kvc selfcheck: %s: \"%.60s\": see kvc --help\n", to ? "a value is needed after this option" : "unknown option, --data and --folder are known", arguments[i]);
      return 2;
    }
    *to = arguments[++i];
  }
  try {
    if (folder.empty()) folder = std::filesystem::temp_directory_path().string();
    const Dump dump = data.empty() ? generated_dump() : read_dump(data);
    std::printf("%s: %llu tokens, %u layers, %u KV heads of %u, f16\n", data.empty() ? "generated rows" : data.c_str(), static_cast<unsigned long long>(dump.tokens), dump.layers, dump.heads, dump.dim);
    Selfcheck(dump, folder).run();
  } catch (const std::exception &e) {
    std::fflush(stdout);
    std::fprintf(stderr, "kvc selfcheck: FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("all right: what came out is what went in, bit for bit\n");
  return 0;
}

}  // namespace kvc::cli
