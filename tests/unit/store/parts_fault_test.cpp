#include "fault_steps.h"
#include "parts_host.h"

/// Every place that can fail, in calls on parts: a call that fails has changed nothing, and succeeds when it is made again.
namespace {

using namespace kvc_test;

#if KVC_FAULTS
struct Steps {
  PartsHost host{{full_layers(2, PartsHost::heads, 8, 6), {1, KVC_LAYER_LATENT, 1, 40, 0, 8, 0, 0, 0, {0, 0, 0}}}};
  const std::vector<int32_t> tokens = ids(64), other = ids(64, 2);
  SeqHandle left, right, fork, found, alone, again, attached;
  std::vector<std::function<kvc_status()>> calls;

  kvc_status match(SeqHandle &seq, const Range &r) {
    const auto o = PartsHost::options_of(r, 0);
    return kvc_match(seq.out(), nullptr, host.scope, tokens.data(), tokens.size(), &o, nullptr, &host.error);
  }
  Steps() {
    calls = {
        [&] { return host.try_create(tp(0, 2), 1, 0, left.out()); },
        [&] { return host.append(left, tp(0, 2), 1, tokens, 0, 40); },
        [&] { return host.try_create(tp(1, 2), 1, 0, right.out()); },
        [&] { return host.append(right, tp(1, 2), 1, tokens, 0, 20); },
        [&] { return host.append(right, tp(1, 2), 1, tokens, 20, 48); },
        [&] { return host.try_create(tp(1, 2), 2, 0, alone.out()); },
        [&] { return host.append(alone, tp(1, 2), 2, tokens, 0, 48); },
        [&] { return match(found, whole); },
        [&] { return kvc_seq_truncate(found, 21, &host.error); },
        [&] { return host.append(found, whole, 3, other, 21, 40); },
        [&] { return kvc_seq_fork(fork.out(), right, 37, &host.error); },
        [&] { return host.append(fork, tp(1, 2), 4, other, 37, 60); },
        [&] { return host.try_create(whole, 5, 0, again.out()); },
        [&] { return host.append(again, whole, 5, tokens, 0, 64); },
        [&] { return host.append(left, tp(0, 2), 1, tokens, 40, 60); },
        [&] { return kvc_seq_publish(left, "l", 1, 0, nullptr, &host.error); },
        [&] { return kvc_seq_attach(attached.out(), host.scope, "l", 1, nullptr, nullptr, &host.error); },
    };
  }
  /// All that can be read, as bytes.
  std::string look() {
    std::string out;
    for (kvc_seq *seq : {static_cast<kvc_seq *>(left), static_cast<kvc_seq *>(right), static_cast<kvc_seq *>(fork), static_cast<kvc_seq *>(found), static_cast<kvc_seq *>(alone), static_cast<kvc_seq *>(again), static_cast<kvc_seq *>(attached)}) {
      if (!seq) continue;
      const kvc_seq_info info = host.info(seq);
      out += std::to_string(info.tokens) + " " + std::to_string(info.tokens_given) + " " + std::to_string(info.tokens_shareable) + ":";
      for (const Range &r : {tp(0, 2), tp(1, 2)}) {
        auto list = host.rows_of(r, 0, info.tokens);
        for (PartsHost::Moved &m : list) {
          if (info.tokens == 0) continue;
          out += std::to_string(kvc_gather(nullptr, seq, &m.rows, 1, nullptr, &host.error));
          out.append(reinterpret_cast<const char *>(m.k.data()), m.k.size() * 2);
          out.append(reinterpret_cast<const char *>(m.v.data()), m.v.size() * 2);
        }
      }
    }
    for (const Range &r : {whole, tp(0, 2), tp(1, 2), pp(0)}) out += std::to_string(host.found(r, tokens)) + ",";
    const kvc_store_info info = store_info(host.store);
    return out + std::to_string(info.memory_used) + " " + std::to_string(info.chunk_count);
  }
};

TEST(PartsFault, a_call_that_fails_has_changed_nothing_and_succeeds_when_it_is_made_again) {
  expect_failures_to_change_nothing<Steps>();
}
#endif

}  // namespace
