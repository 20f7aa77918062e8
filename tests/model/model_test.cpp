// Random histories against the oracle.  A seed that fails prints itself; KVC_MODEL_SEED=N runs it alone, KVC_MODEL_SEEDS=N runs more of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "model.h"

namespace kvc::model {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 20;
#elif defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSeeds = 80;
#else
constexpr uint64_t kSeeds = 160;
#endif

uint64_t number_from(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Odd seeds are cramped: everything is evicted again and again.
Options options_of(uint64_t seed) {
  Options options;
  options.seed = seed;
  options.memory_bytes = seed % 2 ? uint64_t{2} << 20 : uint64_t{64} << 20;
  options.ballast_bytes = seed % 2 ? (1200u + seed % 7 * 50) << 10 : 0;
  options.steps = seed % 2 ? 1000 : 400;
  options.verify_reads = seed % 5 == 0;
  return options;
}

TEST(Model, EveryAnswerOfARandomHistoryIsTheOracles) {
  const uint64_t only = number_from("KVC_MODEL_SEED", 0), last = only ? only : number_from("KVC_MODEL_SEEDS", kSeeds);
  uint64_t evictions = 0, replaced = 0;
  for (uint64_t seed = only ? only : 1; seed <= last; seed++) {
    Model model(options_of(seed));
    try {
      model.run();
    } catch (const Failure &failure) {
      FAIL() << "KVC_MODEL_SEED=" << seed << ": " << failure.what() << "\nthe last calls:\n" << model.log();
    }
    evictions += model.evictions();
    replaced += model.replaced();
  }
  if (only) return;
  EXPECT_GT(evictions, last * 20) << "too little was evicted to show anything";
  RecordProperty("evictions", static_cast<int>(evictions));
  RecordProperty("replaced", static_cast<int>(replaced));
}

}  // namespace
}  // namespace kvc::model
