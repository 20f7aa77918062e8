#pragma once
#include <memory>

#include "cli/bench.h"
#include "cli/bench_tools.h"

namespace kvc::cli {

std::span<const Bench> host_suite();

/// The cache of an 8B model: 32 layers, 8 KV heads of 128, f16; 128 KiB a token, 8 MiB a chunk.
struct Model {
  static constexpr uint32_t layers = 32, heads = 8, dim = 128, chunk_tokens = 64;
  static constexpr uint64_t row_bytes = dim * 2, side_row_bytes = heads * row_bytes, token_bytes = 2 * layers * side_row_bytes;
  static constexpr uint64_t page_side_bytes = chunk_tokens * side_row_bytes, chunk_bytes = chunk_tokens * token_bytes;
  /// A chunk in the store: pages, a header a layer, ids; in whole units of 4 KiB.
  static constexpr uint64_t slot_bytes = (chunk_bytes + layers * 512 + 260 + 4095) / 4096 * 4096;
  /// Where a row lies in a chunk: pages by layer, K then V, each [head][token].
  static constexpr uint64_t row_offset(uint32_t layer, uint32_t side, uint32_t head, uint32_t token) {
    return (uint64_t{layer} * 2 + side) * page_side_bytes + (uint64_t{head} * chunk_tokens + token) * row_bytes;
  }
};

const kvc_shape &model_shape();

/// Memory that the row figures share: a store, the engine's rows, and pages for the copies that ours is compared with, 2 GiB each.
struct RowsFixture {
  static constexpr uint64_t chunks = 256, slab_tokens = 512, long_tokens = 8192, engine_bytes = uint64_t{2} << 30;
  RowsFixture();
  /// A new sequence with the next `tokens` ids, never given before.
  kvc_seq *new_sequence(uint64_t tokens);
  void release(kvc_seq *seq);
  /// Two sequences of 8,192 tokens that fill the store; made once.
  std::span<kvc_seq *const> long_sequences();
  void drop_long_sequences();
  uint8_t *chunk(uint64_t i) const { return pages.data() + i % chunks * Model::slot_bytes; }

  kvc_error error;
  StoreHandles handles;
  Pool engine, pages;
  std::vector<kvc_seq *> longs;
  int32_t next_id = 1;
};

/// 1M tokens of 32 layers with few numbers a token: the index does not know how wide a row is.
struct IndexFixture {
  static constexpr uint64_t sequences = 8, tokens = uint64_t{128} << 10, chunk_tokens = 64, chunks = tokens / chunk_tokens;
  IndexFixture();
  kvc_error error;
  StoreHandles handles;
  std::vector<std::vector<int32_t>> ids;
  std::vector<kvc_seq *> seqs;
  uint64_t metadata_bytes = 0;  // by how much the store's bookkeeping grew
};

/// All bytes of a store but its arena.
uint64_t metadata_bytes(const kvc_store *store);

/// What the table of runs of a figure has in common: ours is contestant 0, the copies follow.
class HostBench {
 public:
  explicit HostBench(const BenchOptions &options) : seconds_(options.seconds), folder_(options.folder) {}
  Figure append_prefill();
  Figure gather_contiguous();
  Figure gather_tokens_first();
  Figure gather_blocks();
  Figure threads();
  Figure append_token();
  Figure overhead();
  Figure get_4k();
  Figure queue_4k();
  Figure queue_4k_more();
  Figure step_idle();
  Figure match();
  Figure fork_flat();
  Figure view();
  Figure index();
  Figure save();
  Figure mixed();

 private:
  Figure queued_gets(bool one_call);
  /// Fixtures are gigabytes: one at a time.
  RowsFixture &rows();
  IndexFixture &tokens();

  double seconds_;
  const std::string folder_;
  std::unique_ptr<RowsFixture> rows_;
  std::unique_ptr<IndexFixture> index_;
};

/// Contestant 0 against the fastest of [1, plain), with the plain copy of as many bytes, the fastest of the rest, as the limit; in GB/s.
Figure bandwidth_figure(std::span<Contestant> contestants, size_t plain, uint64_t bytes);
/// Two plain copies of `bytes` between places of two pools: libc's, and one past the cache.
void add_plain_copies(std::vector<Contestant> &to, const Pool &destination, const Pool &source, uint64_t bytes);

}  // namespace kvc::cli
