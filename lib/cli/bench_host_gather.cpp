#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "cli/bench_host.h"

/// Rows going out, in the three layouts that engines have, by one thread and by two.
namespace kvc::cli {
namespace {

using M = Model;
using F = RowsFixture;

constexpr uint64_t kSideBytes = F::long_tokens * M::side_row_bytes, kBytes = 2 * kSideBytes;
constexpr uint64_t kPlaces = F::engine_bytes / kBytes, kLongChunks = F::long_tokens / M::chunk_tokens;
static_assert(kPlaces == F::chunks / kLongChunks * M::layers, "as many destinations as layers of the two sequences");
constexpr uint32_t kBlockTokens = 16;
constexpr uint64_t kBlockBytes = kBlockTokens * M::side_row_bytes, kBlocks = F::long_tokens / kBlockTokens, kPoolBlocks = F::engine_bytes / 2 / kBlockBytes;

/// Which layer of which sequence a place stands for.
uint32_t layer_of(uint64_t place) { return static_cast<uint32_t>(place % M::layers); }
uint64_t sequence_of(uint64_t place) { return place / M::layers % (F::chunks / kLongChunks); }
const uint8_t *page_of(const F &f, uint64_t place, uint64_t chunk, uint32_t side) {
  return f.chunk(sequence_of(place) * kLongChunks + chunk) + M::row_offset(layer_of(place), side, 0, 0);
}

kvc_rows rows_of(const F &f, uint64_t place) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_begin = layer_of(place);
  rows.layer_count = 1;
  rows.token_count = F::long_tokens;
  rows.k.data = f.engine.data() + place % kPlaces * kBytes;
  rows.v.data = f.engine.data() + place % kPlaces * kBytes + kSideBytes;
  rows.k.bytes = rows.v.bytes = kSideBytes;
  return rows;
}

void gather(F &f, const kvc_rows &rows, uint64_t place) {
  kvc_error error;  // its own: two threads may be here
  KVC_INIT(&error);
  must(kvc_gather(nullptr, f.longs[sequence_of(place)], &rows, 1, nullptr, &error), error);
}

void gather_heads_first(F &f, uint64_t place) {
  kvc_rows rows = rows_of(f, place);
  rows.k.token_stride = rows.v.token_stride = M::row_bytes;
  rows.k.head_stride = rows.v.head_stride = F::long_tokens * M::row_bytes;
  gather(f, rows, place);
}

/// Pieces of all rows of a head in a page.
void copy_heads_first(Copy copy, const F &f, uint64_t place) {
  constexpr uint64_t piece = M::chunk_tokens * M::row_bytes;
  uint8_t *const to = f.engine.data() + place % kPlaces * kBytes;
  for (uint32_t side = 0; side < 2; side++)
    for (uint64_t chunk = 0; chunk < kLongChunks; chunk++)
      for (uint32_t head = 0; head < M::heads; head++)
        copy(to + side * kSideBytes + (head * kLongChunks + chunk) * piece, page_of(f, place, chunk, side) + head * piece, piece);
  copy_fence();
}

/// Pieces of one row; `row_at(side, token)` is where a token's heads go.  In the order of the destination, or head by head.
template <bool by_destination, typename RowAt>
void copy_rows(Copy copy, const F &f, uint64_t place, RowAt &&row_at) {
  constexpr uint32_t outer_count = by_destination ? kBlockTokens : M::heads, inner_count = by_destination ? M::heads : kBlockTokens;
  for (uint32_t side = 0; side < 2; side++)
    for (uint64_t token = 0; token < F::long_tokens; token += kBlockTokens) {
      const uint8_t *const page = page_of(f, place, token / M::chunk_tokens, side);
      uint8_t *const to = row_at(side, token);
      for (uint32_t outer = 0; outer < outer_count; outer++)
        for (uint32_t inner = 0; inner < inner_count; inner++) {
          const uint64_t head = by_destination ? inner : outer, row = by_destination ? outer : inner;
          copy(to + (row * M::heads + head) * M::row_bytes, page + (head * M::chunk_tokens + token % M::chunk_tokens + row) * M::row_bytes, M::row_bytes);
        }
    }
  copy_fence();
}

/// Both orders with both copies, then the plain ones.  Returns how many contestants precede those.
template <typename RowAt>
size_t add_row_copies(std::vector<Contestant> &contestants, const F &f, RowAt row_at) {
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()}) {
    contestants.push_back({[=, &f](uint64_t place) { copy_rows<true>(copy, f, place, [&](uint32_t side, uint64_t token) { return row_at(place, side, token); }); }, {}, {}});
    contestants.push_back({[=, &f](uint64_t place) { copy_rows<false>(copy, f, place, [&](uint32_t side, uint64_t token) { return row_at(place, side, token); }); }, {}, {}});
  }
  const size_t plain = contestants.size();
  add_plain_copies(contestants, f.engine, f.pages, kBytes);
  return plain;
}

/// A second thread that repeats what it is told, so that its start is not measured.
class Second {
 public:
  Second() : thread_([this] { loop(); }) {}
  ~Second() {
    job_ = nullptr;
    turn_.store(1);
    turn_.notify_one();
    thread_.join();
  }
  void start(const std::function<void()> &job) {
    job_ = &job;
    turn_.store(1);
    turn_.notify_one();
  }
  void wait() { turn_.wait(1); }

 private:
  void loop() {
    for (;;) {
      turn_.wait(0);
      if (!job_) return;
      (*job_)();
      turn_.store(0);
      turn_.notify_one();
    }
  }
  const std::function<void()> *job_ = nullptr;
  std::atomic<int> turn_{0};
  std::thread thread_;
};

}  // namespace

Figure HostBench::gather_contiguous() {
  F &f = rows();
  f.long_sequences();
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t place) { gather_heads_first(f, place); }, {}, {}});
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()})
    contestants.push_back({[&f, copy](uint64_t place) { copy_heads_first(copy, f, place); }, {}, {}});
  const size_t plain = contestants.size();
  add_plain_copies(contestants, f.engine, f.pages, kBytes);
  race(contestants, seconds_, 3);
  return bandwidth_figure(contestants, plain, kBytes);
}

Figure HostBench::gather_tokens_first() {
  F &f = rows();
  f.long_sequences();
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t place) { gather(f, rows_of(f, place), place); }, {}, {}});
  const size_t plain = add_row_copies(contestants, f, [&f](uint64_t place, uint32_t side, uint64_t token) {
    return f.engine.data() + place % kPlaces * kBytes + side * kSideBytes + token * M::side_row_bytes;
  });
  race(contestants, seconds_, 3);
  return bandwidth_figure(contestants, plain, kBytes);
}

/// As the pool of an engine: [K, V][block][16][head][dim]; every run takes blocks that nobody used for long, none near another.
Figure HostBench::gather_blocks() {
  F &f = rows();
  f.long_sequences();
  std::vector<int32_t> blocks(kPoolBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  Noise noise{11};
  for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[noise.next() % i]);
  const auto table = [&](uint64_t place) { return blocks.data() + place % (kPoolBlocks / kBlocks) * kBlocks; };
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t place) {
                           kvc_rows rows = rows_of(f, place);
                           rows.k.data = f.engine.data();
                           rows.v.data = f.engine.data() + F::engine_bytes / 2;
                           rows.k.bytes = rows.v.bytes = F::engine_bytes / 2;
                           rows.block_tokens = kBlockTokens;
                           rows.blocks = table(place);
                           rows.block_count = kBlocks;
                           gather(f, rows, place);
                         },
                         {}, {}});
  const size_t plain = add_row_copies(contestants, f, [&f, table](uint64_t place, uint32_t side, uint64_t token) {
    return f.engine.data() + side * F::engine_bytes / 2 + static_cast<uint64_t>(table(place)[token / kBlockTokens]) * kBlockBytes;
  });
  race(contestants, seconds_, 3);
  return bandwidth_figure(contestants, plain, kBytes);
}

/// Contestants: ours alone, ours twice at once, then the same for each copy.  Twice at once moves twice the bytes.
Figure HostBench::threads() {
  if (std::thread::hardware_concurrency() < 2) throw std::runtime_error("host.threads needs two processors, this machine has one");
  F &f = rows();
  f.long_sequences();
  Second second;
  std::vector<Contestant> contestants;
  const auto add = [&](std::function<void(uint64_t)> one) {
    contestants.push_back({one, {}, {}});
    contestants.push_back({[&second, one](uint64_t place) {
                             const std::function<void()> other = [&] { one(place + kPlaces / 2); };
                             second.start(other);
                             one(place);
                             second.wait();
                           },
                           {}, {}});
  };
  add([&](uint64_t place) { gather_heads_first(f, place); });
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()}) add([&f, copy](uint64_t place) { copy_heads_first(copy, f, place); });
  race(contestants, seconds_, 3);
  const auto gain = [&](size_t i) { return 2 * contestants[i].ns.median() / contestants[i + 1].ns.median(); };
  const size_t best = contestants[2].ns.median() < contestants[4].ns.median() ? 2 : 4;
  Figure figure;
  figure.value = gain(0);
  figure.p99 = 2 * contestants[0].ns.median() / contestants[1].ns.quantile(0.99);
  figure.baseline = gain(best);
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

}  // namespace kvc::cli
