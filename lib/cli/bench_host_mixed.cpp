#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "cli/bench_host.h"

/// Four threads that match, gather and append in a store that holds a quarter of what they ask for: how much later the slowest gathers are.
namespace kvc::cli {
namespace {

constexpr uint64_t prompts = 64, prompt_tokens = 256, store_chunks = 96, threads_count = 4;
constexpr uint64_t prompt_bytes = prompt_tokens * Model::token_bytes;

struct MixedFixture {
  StoreHandles handles;
  Pool engine;
  explicit MixedFixture(const kvc_shape *shape) : handles(store_chunks * Model::slot_bytes, shape), engine(prompt_bytes) {}
};

/// One host's thread: its own memory, its own choice of prompts, the more of the first ones.
class Worker {
 public:
  Worker(const MixedFixture &fixture, uint64_t seed) : fixture_(fixture), memory_(prompt_bytes), noise_{seed} { KVC_INIT(&error_); }
  void run(const std::atomic<bool> &stop) {
    while (!stop.load(std::memory_order_relaxed)) turn();
  }
  std::vector<double> gathers_ns;
  uint64_t appends = 0;

 private:
  kvc_rows rows(const Pool &memory, uint64_t begin, uint64_t end) const {
    kvc_rows r;
    KVC_INIT(&r);
    r.layer_count = Model::layers, r.token_begin = begin, r.token_count = end - begin, r.slot_begin = begin;
    r.k.data = memory.data(), r.v.data = memory.data() + prompt_bytes / 2;
    r.k.bytes = r.v.bytes = prompt_bytes / 2, r.k.layer_stride = r.v.layer_stride = prompt_tokens * Model::side_row_bytes;
    return r;
  }
  void turn() {
    const double unit = static_cast<double>(noise_.next() >> 11) * 0x1p-53;
    const auto prompt = static_cast<int32_t>(prompts * unit * unit * unit);
    std::vector<int32_t> ids(prompt_tokens);
    for (uint64_t i = 0; i < prompt_tokens; i++) ids[i] = prompt * 1000 + static_cast<int32_t>(i);
    kvc_match_info info;
    KVC_INIT(&info);
    kvc_seq *seq;
    must(kvc_match(&seq, &info, fixture_.handles.scope, ids.data(), ids.size(), nullptr, nullptr, &error_), error_);
    if (info.tokens == prompt_tokens) {
      const kvc_rows r = rows(memory_, 0, prompt_tokens);
      const double begin = now_ns();
      must(kvc_gather(nullptr, seq, &r, 1, nullptr, &error_), error_);
      gathers_ns.push_back(now_ns() - begin);
    } else {
      const kvc_rows r = rows(fixture_.engine, info.tokens, prompt_tokens);
      must(kvc_append(seq, ids.data() + info.tokens, prompt_tokens - info.tokens, &r, 1, nullptr, &error_), error_);
      appends++;
    }
    must(kvc_seq_release(seq, &error_), error_);
  }

  const MixedFixture &fixture_;
  Pool memory_;
  Noise noise_;
  kvc_error error_;
};

}  // namespace

Figure HostBench::mixed() {
  rows_.reset(), index_.reset();
  const MixedFixture fixture(&model_shape());
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t i = 0; i < threads_count; i++) workers.push_back(std::make_unique<Worker>(fixture, 17 + i));
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failed;
  {
    std::vector<std::jthread> threads;
    for (const auto &worker : workers)
      threads.emplace_back([&] {
        try {
          worker->run(stop);
        } catch (...) {
          std::lock_guard lock(mutex);
          failed = std::current_exception();
          stop = true;
        }
      });
    const double end = now_ns() + 20 * seconds_ * 1e9;
    while (!stop && now_ns() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  }
  if (failed) std::rethrow_exception(failed);
  Samples gathers;
  uint64_t appends = 0;
  for (const auto &worker : workers) {
    for (const double ns : worker->gathers_ns) gathers.add(ns * 1e-3);
    appends += worker->appends;
  }
  if (gathers.count() == 0 || appends <= store_chunks / (prompt_tokens / Model::chunk_tokens)) throw std::runtime_error("host.mixed: too short, nothing was gathered or nothing had to go");
  Figure figure;
  figure.value = figure.p99 = gathers.quantile(0.99);
  figure.baseline = gathers.median();
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

}  // namespace kvc::cli
