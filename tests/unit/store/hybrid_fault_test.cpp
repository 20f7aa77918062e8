#include <unistd.h>

#include <filesystem>
#include <functional>

#include "fault_steps.h"
#include "hybrid.h"

/// Every place that can fail, in calls on a model of mixed layers: a call that fails has changed nothing, and succeeds when it is made again.
namespace {

using namespace kvc_test;

#if KVC_FAULTS
struct Steps {
  HybridHost host{{latent_layers(1, 6, 2), window_layers(2, 1, 5, 3, 20), state_layers(1, 2, 50, 9)}, KVC_F16, 16, 4u << 20};
  const std::vector<int32_t> tokens = ids(200);
  SeqHandle first, fork, found, again, alone, back, beside;
  const std::string path = testing::TempDir() + "kvc-hybrid-fault-" + std::to_string(getpid());
  LeaseHandle lease;
  std::vector<std::function<kvc_status()>> calls;

  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &all, uint64_t begin, uint64_t end, uint64_t windows_from, int writer) {
    Moves moves = host.sources(begin, end, writer, KVC_LAYER_STATE);
    moves += host.sources(begin, end, writer, KVC_LAYER_LATENT);
    moves += host.sources(windows_from, end, writer, KVC_LAYER_WINDOW);
    return host.append(seq, {all.begin() + static_cast<int64_t>(begin), all.begin() + static_cast<int64_t>(end)}, moves.rows());
  }
  kvc_status create(SeqHandle &seq, uint32_t flags = 0) {
    auto options = sized<kvc_seq_options>();
    options.flags = flags;
    return kvc_seq_create(seq.out(), host.scope, &options, &host.error);
  }
  ~Steps() { std::filesystem::remove(path); }
  Steps() {
    calls = {
        [&] { return create(first); },
        [&] { return append(first, tokens, 0, 64, 0, 1); },
        [&] { return append(first, tokens, 64, 90, 71, 1); },
        [&] { return append(first, tokens, 90, 91, 90, 1); },
        [&] { return kvc_seq_fork(fork.out(), first, KVC_ALL, &host.error); },
        [&] { return append(fork, ids(200, 2), 91, 100, 91, 2); },
        [&] { return append(first, tokens, 91, 130, 111, 1); },
        [&] { return kvc_seq_truncate(first, 64, &host.error); },
        [&] { return append(first, ids(200, 3), 64, 70, 64, 3); },
        [&] { return kvc_match(found.out(), nullptr, host.scope, tokens.data(), tokens.size(), nullptr, nullptr, &host.error); },
        [&] { return append(found, tokens, 64, 80, 64, 4); },
        [&] { return kvc_seq_lease(lease.out(), found, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error); },
        [&] { return create(again); },
        [&] { return append(again, tokens, 0, 80, 61, 5); },
        [&] { return create(alone, KVC_SEQ_PRIVATE); },
        [&] { return append(alone, tokens, 0, 40, 21, 6); },
        [&] { return kvc_seq_save(alone, path.c_str(), nullptr, &host.error); },
        [&] { return kvc_seq_restore(back.out(), host.scope, path.c_str(), nullptr, nullptr, &host.error); },
        [&] { return kvc_seq_save(first, path.c_str(), nullptr, &host.error); },
        [&] { return kvc_seq_restore(beside.out(), host.scope, path.c_str(), nullptr, nullptr, &host.error); },
    };
  }
  /// All that can be read, as bytes.
  std::string look() {
    std::string out;
    for (kvc_seq *seq : {static_cast<kvc_seq *>(first), static_cast<kvc_seq *>(fork), static_cast<kvc_seq *>(found), static_cast<kvc_seq *>(again), static_cast<kvc_seq *>(alone), static_cast<kvc_seq *>(back), static_cast<kvc_seq *>(beside)}) {
      if (!seq) continue;
      auto info = sized<kvc_seq_info>();
      EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
      out += std::to_string(info.tokens) + " " + std::to_string(info.tokens_given) + " " + std::to_string(info.tokens_end) + ":";
      for (uint32_t l = 0; l < host.layers.size(); l++)
        for (uint64_t at = 1; at <= info.tokens; at += 5) {
          const Moves moves = host.target(l, at - 1, at);
          out += std::to_string(host.gather(seq, moves.rows()));
          out.append(moves.list[0]->k.begin(), moves.list[0]->k.end());
          out.append(moves.list[0]->v.begin(), moves.list[0]->v.end());
        }
    }
    auto info = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
    return out + std::to_string(info.memory_used) + " " + std::to_string(info.chunk_count);
  }
};

TEST(HybridFault, a_call_that_fails_has_changed_nothing_and_succeeds_when_it_is_made_again) {
  expect_failures_to_change_nothing<Steps>();
}

TEST(HybridFault, a_long_append_of_window_rows_that_is_refused_memory_anywhere_gives_back_all_that_it_took) {
  constexpr uint64_t count = 16 * 200;
  HybridHost host({full_layers(1, 1, 1, 1), window_layers(1, 1, 1, 1, 20)}, KVC_F16, 16, 8u << 20);
  SeqHandle seq = host.create();
  const auto prompt = ids(count);
  const Moves moves = host.sources(0, count, 1);
  const auto used = [&] {
    auto info = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK) << host.error.message;
    return info.memory_used;
  };
  uint64_t nth = 1;
  for (kvc_status status = KVC_ERR_NO_MEMORY; status != KVC_OK; nth++) {
    ASSERT_LT(nth, 4000u);
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
    status = host.append(seq, prompt, moves.rows());
    kvc::base::fault_disarm_all();
    if (status == KVC_OK) break;
    ASSERT_EQ(status, KVC_ERR_NO_MEMORY) << nth << ": " << host.error.message;
    ASSERT_EQ(used(), 0u) << nth;
  }
  EXPECT_GT(nth, 400u) << "two slots a chunk";
  host.expect_rows(seq, 1, count - 19, count, 1);
}
#endif

}  // namespace
