#include <array>
#include <cstring>

#include "base/sha256.h"
#include "cli/bench_host.h"

/// What is paid for tokens, not for bytes: names, look-ups, forks, bookkeeping.
namespace kvc::cli {
namespace {

using F = IndexFixture;

/// "kvc chunk 1" | name before it | u32 n | ids | u32 extras: what is hashed for a chunk.
constexpr size_t kInputBytes = 11 + 32 + 4 + F::chunk_tokens * 4 + 4;
using Input = std::array<uint8_t, kInputBytes>;

std::vector<Input> chained_inputs(const std::vector<int32_t> &ids) {
  base::Sha256 hash;
  std::vector<Input> inputs(F::chunks);
  base::Digest parent{};  // not the scope's: a digest costs the same over any bytes
  const uint32_t count = F::chunk_tokens, extras = 0;
  for (uint64_t c = 0; c < F::chunks; c++) {
    uint8_t *at = inputs[c].data();
    std::memcpy(at, "kvc chunk 1", 11);
    std::memcpy(at + 11, parent.data(), 32);
    std::memcpy(at + 43, &count, 4);
    std::memcpy(at + 47, ids.data() + c * F::chunk_tokens, F::chunk_tokens * 4);
    std::memcpy(at + 47 + F::chunk_tokens * 4, &extras, 4);
    parent = hash.digest(inputs[c].data(), kInputBytes);
  }
  return inputs;
}

}  // namespace

Figure HostBench::match() {
  F &f = tokens();
  std::vector<std::vector<Input>> inputs;
  for (const std::vector<int32_t> &ids : f.ids) inputs.push_back(chained_inputs(ids));
  kvc_seq *seq = nullptr;
  kvc_match_info info;
  base::Sha256 hash;
  base::Digest digest;
  Contestant contestants[] = {
      {[&](uint64_t place) {
         const std::vector<int32_t> &ids = f.ids[place % F::sequences];
         KVC_INIT(&info);
         must(kvc_match(&seq, &info, f.handles.scope, ids.data(), ids.size(), nullptr, nullptr, &f.error), f.error);
       },
       {},
       [&](uint64_t) {
         if (info.tokens != F::tokens) throw std::runtime_error("a match did not find what was appended");
         must(kvc_seq_release(seq, &f.error), f.error);
       }},
      {[&](uint64_t place) {
         for (const Input &input : inputs[place % F::sequences]) digest = hash.digest(input.data(), input.size());
       },
       {}, {}},
  };
  race(contestants, seconds_, 2 * F::sequences);
  Figure figure;
  figure.value = contestants[0].ns.median() / 1000;
  figure.p99 = contestants[0].ns.quantile(0.99) / 1000;
  figure.baseline = contestants[1].ns.median() / 1000;
  figure.ratio = figure.baseline / figure.value;
  return figure;
}

Figure HostBench::fork_flat() {
  constexpr uint64_t batch = 16, few_tokens = 1024;
  F &f = tokens();
  std::vector<kvc_seq *> forks(batch), few(F::sequences);
  for (uint64_t s = 0; s < F::sequences; s++) must(kvc_seq_fork(&few[s], f.seqs[s], few_tokens, &f.error), f.error);
  const auto contestant = [&](const std::vector<kvc_seq *> &from) -> Contestant {
    return {[&](uint64_t place) {
              for (uint64_t i = 0; i < batch; i++) must(kvc_seq_fork(&forks[i], from[(place + i) % F::sequences], KVC_ALL, &f.error), f.error);
            },
            {},
            [&](uint64_t) {
              for (kvc_seq *seq : forks) must(kvc_seq_release(seq, &f.error), f.error);
            }};
  };
  Contestant contestants[] = {contestant(f.seqs), contestant(few)};
  race(contestants, seconds_, 100);
  for (kvc_seq *seq : few) must(kvc_seq_release(seq, &f.error), f.error);
  const double calls = 1000.0 * batch;
  Figure figure;
  figure.value = contestants[0].ns.median() / calls;
  figure.p99 = contestants[0].ns.quantile(0.99) / calls;
  figure.baseline = contestants[1].ns.median() / calls;
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

Figure HostBench::index() {
  F &f = tokens();
  Figure figure;
  figure.value = figure.p99 = static_cast<double>(f.metadata_bytes);
  figure.baseline = static_cast<double>(F::sequences * F::chunks);  // chunks
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

}  // namespace kvc::cli
