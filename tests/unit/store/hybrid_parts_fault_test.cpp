#include "fault_steps.h"
#include "parts_host.h"

/// Every place that can fail, in calls on parts of a model of mixed layers: a call that fails has changed nothing, and succeeds when it is made again.
namespace {

using namespace kvc_test;

#if KVC_FAULTS
struct Steps {
  PartsHost host{{full_layers(1, 8, 8, 6), {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 20, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_WINDOW, 1, 8, 6, 0, 12, 0, 0, {0, 0, 0}},
                  {1, KVC_LAYER_STATE, 8, 48, 10, 0, 0, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_STATE, 1, 48, 10, 0, 0, 0, 0, {0, 0, 0}}}};
  const Range states{3, 2, 0, 0}, rest{0, 3, 0, 0};
  const std::vector<int32_t> tokens = ids(64), other = ids(64, 2);
  SeqHandle left, right, fork, found, alone, stage, sister;
  LeaseHandle lease;
  std::vector<std::function<kvc_status()>> calls;

  kvc_status match(SeqHandle &seq, const Range &r) {
    const auto o = PartsHost::options_of(r, 0);
    return kvc_match(seq.out(), nullptr, host.scope, tokens.data(), tokens.size(), &o, nullptr, &host.error);
  }
  Steps() {
    calls = {
        [&] { return host.try_create(tp(0, 2), 1, 0, left.out()); },
        [&] { return host.append(left, tp(0, 2), 1, tokens, 0, 32); },
        [&] { return host.try_create(tp(1, 2), 1, 0, right.out()); },
        [&] { return host.append(right, tp(1, 2), 1, tokens, 0, 32, true, 0, KVC_LAYER_FULL); },
        [&] { return host.append(right, tp(1, 2), 1, tokens, 0, 32, false, 13, KVC_LAYER_WINDOW); },
        [&] { return host.append(right, tp(1, 2), 1, tokens, 0, 32, false, 0, KVC_LAYER_STATE); },
        [&] { return match(found, whole); },
        [&] { return host.append(left, tp(0, 2), 1, tokens, 32, 40); },
        [&] { return host.append(found, whole, 3, other, 32, 50); },
        [&] { return kvc_seq_fork(fork.out(), right, KVC_ALL, &host.error); },
        [&] { return host.append(fork, tp(1, 2), 4, other, 32, 48); },
        [&] { return kvc_seq_lease(lease.out(), fork, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error); },
        [&] { return host.try_create(tp(1, 4), 2, 0, alone.out()); },
        [&] { return host.append(alone, tp(1, 4), 2, tokens, 0, 48); },
        [&] { return host.try_create(states, 5, 0, stage.out()); },
        [&] { return host.append(stage, states, 5, ids(64, 6), 0, 48); },
        [&] { return host.try_create(rest, 5, 0, sister.out()); },
        [&] { return host.append(sister, rest, 5, ids(64, 6), 0, 48); },
        [&] { return kvc_seq_truncate(sister, 37, &host.error); },
        [&] { return host.append(sister, rest, 6, other, 37, 64); },
        [&] { return kvc_seq_truncate(left, 32, &host.error); },
        [&] { return host.append(left, tp(0, 2), 1, other, 32, 48); },
    };
  }
  /// All that can be read, as bytes.
  std::string look() {
    std::string out;
    for (const auto &[seq, r] : std::initializer_list<std::pair<kvc_seq *, Range>>{{left, tp(0, 2)}, {right, tp(1, 2)}, {fork, tp(1, 2)}, {found, whole}, {alone, tp(1, 4)}, {stage, states}, {sister, rest}}) {
      if (!seq) continue;
      const kvc_seq_info info = host.info(seq);
      out += std::to_string(info.tokens) + " " + std::to_string(info.tokens_given) + " " + std::to_string(info.tokens_end) + " " + std::to_string(info.tokens_shareable) + ":";
      for (uint64_t end = 1; end <= info.tokens; end += 3) {
        auto list = host.rows_of(r, end - 1, end);
        for (PartsHost::Moved &m : list) {
          out += std::to_string(kvc_gather(nullptr, seq, &m.rows, 1, nullptr, &host.error));
          out.append(reinterpret_cast<const char *>(m.k.data()), m.k.size() * 2);
          out.append(reinterpret_cast<const char *>(m.v.data()), m.v.size() * 2);
        }
      }
    }
    for (const Range &r : {whole, tp(0, 2), tp(1, 2), tp(2, 4), states, rest})
      for (const int32_t salt : {0, 2, 6}) out += std::to_string(host.found(r, ids(64, salt))) + ",";
    const kvc_store_info info = store_info(host.store);
    return out + std::to_string(info.memory_used) + " " + std::to_string(info.chunk_count);
  }
};

TEST(HybridPartsFault, a_call_that_fails_has_changed_nothing_and_succeeds_when_it_is_made_again) {
  expect_failures_to_change_nothing<Steps>();
}
#endif

}  // namespace
