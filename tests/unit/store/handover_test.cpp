#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/fault.h"
#include "stamped_store.h"

/// Sequences handed over by name: published, attached, withdrawn.
namespace {

using namespace kvc_test;

struct HandoverTest : StampedStore {
  kvc_status publish(kvc_seq *seq, std::string_view name, uint64_t lease_ms = 0) {
    return kvc_seq_publish(seq, name.data(), name.size(), lease_ms, nullptr, &error);
  }
  kvc_status attach(SeqHandle &out, std::string_view name, const kvc_seq_options *options = nullptr, const kvc_scope *of = nullptr) {
    auto *made = reinterpret_cast<kvc_seq *>(7);
    const kvc_status status = kvc_seq_attach(&made, of ? of : scope, name.data(), name.size(), options, nullptr, &error);
    if (status != KVC_OK) {
      EXPECT_EQ(made, nullptr);
    }
    out = SeqHandle(status == KVC_OK ? made : nullptr);
    return status;
  }
  SeqHandle attached(std::string_view name) {
    SeqHandle out;
    EXPECT_EQ(attach(out, name), KVC_OK) << error.message;
    return out;
  }
  kvc_status withdraw(std::string_view name, const kvc_scope *of = nullptr) { return kvc_seq_withdraw(of ? of : scope, name.data(), name.size(), &error); }
};

TEST_F(HandoverTest, who_attaches_reads_what_was_published_open_rows_included_and_each_goes_on_alone) {
  for (const uint32_t flags : {0u, static_cast<uint32_t>(KVC_SEQ_PRIVATE)}) {
    open();
    SeqHandle seq = written(1, 40, flags);
    ASSERT_EQ(publish(seq, "decode-7"), KVC_OK) << error.message;
    ASSERT_EQ(append(seq, 2, 40, 50), KVC_OK) << error.message;
    SeqHandle first = attached("decode-7"), second = attached("decode-7");
    seq.reset();
    ASSERT_EQ(append(first, 3, 40, 70), KVC_OK) << error.message;
    ASSERT_EQ(kvc_seq_truncate(second, 10, &error), KVC_OK) << error.message;
    expect_rows(first, 0, 70, [](uint64_t t) { return Origin{t < 40 ? 1u : 3u, t}; });
    expect_rows(second, 0, 10, 1);
    SeqHandle third = attached("decode-7");
    EXPECT_EQ(info(third).tokens, 40u);
    EXPECT_EQ(info(third).tokens_given, 40u);
    EXPECT_EQ(info(third).tokens_shareable, flags ? 0u : 40u);
    expect_rows(third, 0, 40, 1);
    ASSERT_EQ(withdraw("decode-7"), KVC_OK) << error.message;
    first.reset(), second.reset(), third.reset();
    EXPECT_EQ(info().memory_pinned, 0u);
    scope.reset(), store.reset();
  }
}

TEST_F(HandoverTest, B54_it_is_held_for_its_lease_against_all_pressure_and_then_lapses) {
  open();
  SeqHandle seq = written(1, 40), got;
  ASSERT_EQ(publish(seq, "p", 5000), KVC_OK) << error.message;
  seq.reset();
  clock.advance_ms(4999);
  pressure();
  ASSERT_EQ(attach(got, "p"), KVC_OK) << error.message;
  expect_rows(got, 0, 40, 1);
  got.reset();
  EXPECT_GT(info().memory_pinned, 0u);
  clock.advance_ms(1);
  expect_refused(attach(got, "p"), KVC_ERR_NOT_FOUND, {"\"p\""});
  EXPECT_EQ(info().memory_pinned, 0u);
  EXPECT_EQ(metrics().lapsed_leases, 1u);
  expect_refused(withdraw("p"), KVC_ERR_NOT_FOUND, {"\"p\""});
}

TEST_F(HandoverTest, a_lease_of_0_is_the_stores_and_one_for_ever_ends_by_withdrawal_alone) {
  open();
  SeqHandle seq = written(1, 20), got;
  ASSERT_EQ(publish(seq, "default"), KVC_OK) << error.message;
  ASSERT_EQ(publish(seq, "for ever", KVC_FOREVER), KVC_OK) << error.message;
  clock.advance_ms(999);
  EXPECT_EQ(attach(got, "default"), KVC_OK) << error.message;
  clock.advance_ms(1);
  EXPECT_EQ(attach(got, "default"), KVC_ERR_NOT_FOUND);
  clock.advance_ms(1ull << 40);
  EXPECT_EQ(attach(got, "for ever"), KVC_OK) << error.message;
  ASSERT_EQ(withdraw("for ever"), KVC_OK) << error.message;
  EXPECT_EQ(attach(got, "for ever"), KVC_ERR_NOT_FOUND);
}

TEST_F(HandoverTest, B54_what_nobody_came_for_is_freed_at_once_by_a_withdrawal) {
  open();
  SeqHandle seq = written(1, 40, KVC_SEQ_PRIVATE);
  ASSERT_EQ(publish(seq, "p", KVC_FOREVER), KVC_OK) << error.message;
  seq.reset();
  EXPECT_GT(info().memory_pinned, 0u);
  ASSERT_EQ(withdraw("p"), KVC_OK) << error.message;
  EXPECT_EQ(info().memory_pinned, 0u);
  EXPECT_EQ(info().memory_used, 0u) << "private rows are nobody's now";
}

TEST_F(HandoverTest, open_rows_of_a_lapsed_one_make_room_for_others) {
  open(1u << 20, 0, [](kvc_store_options &o) { o.lease_ms = KVC_FOREVER; });
  SeqHandle seq = written(1, 10);
  ASSERT_EQ(publish(seq, "p", 50), KVC_OK) << error.message;
  seq.reset();
  std::vector<SeqHandle> held;
  for (uint64_t w = 100; held.size() < 5000; w++) {
    SeqHandle other = create();
    if (append(other, w, 0, chunk) != KVC_OK) break;
    held.push_back(std::move(other));
  }
  EXPECT_EQ(error.status, KVC_ERR_FULL);
  clock.advance_ms(50);
  SeqHandle other = written(2, chunk);
  expect_rows(other, 0, chunk, 2);
}

TEST_F(HandoverTest, publishing_a_name_again_replaces_it_and_its_lease) {
  open();
  SeqHandle a = written(1, 20, KVC_SEQ_PRIVATE), b = written(2, 24);
  ASSERT_EQ(publish(a, "p", 100), KVC_OK) << error.message;
  ASSERT_EQ(publish(b, "p", 5000), KVC_OK) << error.message;
  const uint64_t used = info().memory_used;
  a.reset();
  EXPECT_LT(info().memory_used, used) << "what was published before is let go";
  clock.advance_ms(200);
  expect_rows(attached("p"), 0, 24, 2);
}

TEST_F(HandoverTest, names_are_bytes_and_belong_to_their_scope) {
  open();
  ScopeHandle other = make_scope("other"), same = make_scope("stamped");
  SeqHandle seq = written(1, 20), there = create(0, other), got;
  ASSERT_EQ(append(there, 2, 0, 20), KVC_OK) << error.message;
  const std::string most(64, 'n'), zeros("a\0b", 3), zero("a\0", 2);
  for (const std::string &name : {most, zeros, zero, std::string("a"), std::string("\xff")}) ASSERT_EQ(publish(seq, name), KVC_OK) << error.message;
  ASSERT_EQ(publish(there, "a"), KVC_OK) << error.message;
  ASSERT_EQ(attach(got, zeros, nullptr, same), KVC_OK) << "an equal scope is the same: " << error.message;
  ASSERT_EQ(attach(got, "a", nullptr, other), KVC_OK) << error.message;
  expect_rows(got, 0, 20, 2);
  ASSERT_EQ(withdraw("a", other), KVC_OK) << error.message;
  ASSERT_EQ(withdraw(zero), KVC_OK) << error.message;
  expect_rows(attached("a"), 0, 20, 1);
  EXPECT_EQ(attach(got, zero), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(attach(got, "a", nullptr, other), KVC_ERR_NOT_FOUND);
}

TEST_F(HandoverTest, it_outlives_its_sequence_and_every_handle_of_its_scope) {
  open();
  SeqHandle seq = written(1, 20);
  ASSERT_EQ(publish(seq, "p"), KVC_OK) << error.message;
  seq.reset(), scope.reset();
  scope = make_scope("stamped");
  expect_rows(attached("p"), 0, 20, 1);
}

TEST_F(HandoverTest, a_store_closes_with_names_published) {
  open();
  SeqHandle seq = written(1, 40), other = written(2, 7, KVC_SEQ_PRIVATE);
  ASSERT_EQ(publish(seq, "p"), KVC_OK) << error.message;
  ASSERT_EQ(publish(other, "q"), KVC_OK) << error.message;
  seq.release(), other.release(), scope.release();
  EXPECT_EQ(kvc_close(store.release(), &error), KVC_OK) << error.message;
}

TEST_F(HandoverTest, options_give_the_lease_and_privacy_and_nothing_else) {
  open();
  SeqHandle seq = written(1, 20), got;
  ASSERT_EQ(publish(seq, "p", KVC_FOREVER), KVC_OK) << error.message;
  auto options = sized<kvc_seq_options>();
  options.lease_ms = 70, options.flags = KVC_SEQ_PRIVATE, options.prefill_ns_per_token = 5, options.tokens_max = 3;
  ASSERT_EQ(attach(got, "p", &options), KVC_OK) << error.message;
  EXPECT_EQ(info(got).lease_left_ms, 70u);
  EXPECT_EQ(info(got).tokens, 20u) << "tokens_max is a match's";
  EXPECT_EQ(info(got).tokens_shareable, 16u) << "the chunk that was sealed under its name";
  ASSERT_EQ(append(got, 5, 20, 40), KVC_OK) << error.message;
  expect_rows(got, 0, 40, [](uint64_t t) { return Origin{t < 20 ? 1u : 5u, t}; });
  const kvc_extra extra{50, 1, "x", 1};
  const auto refused = [&](auto &&set, kvc_status status, std::initializer_list<const char *> words) {
    auto o = sized<kvc_seq_options>();
    set(o);
    expect_refused(attach(got, "p", &o), status, words);
  };
  refused([](kvc_seq_options &o) { o.flags = KVC_SEQ_PEEK; }, KVC_ERR_ARGUMENT, {"0x4", "match"});
  refused([](kvc_seq_options &o) { o.flags = KVC_SEQ_NO_CUT; }, KVC_ERR_ARGUMENT, {"0x2", "match"});
  refused([](kvc_seq_options &o) { o.flags = 1u << 20; }, KVC_ERR_TOO_NEW, {"0x100000"});
  refused([&](kvc_seq_options &o) { o.extras = &extra, o.extra_count = 1; }, KVC_ERR_ARGUMENT, {"extra_count 1"});
  refused([](kvc_seq_options &o) { o.first_position = 9; }, KVC_ERR_ARGUMENT, {"first_position 9"});
  refused([](kvc_seq_options &o) { o.size = 3; }, KVC_ERR_ARGUMENT, {"options.size 3"});
}

TEST_F(HandoverTest, what_is_refused_names_the_value_and_publishes_nothing) {
  open();
  SeqHandle seq = written(1, 20), got;
  const std::string long_name(65, 'x');
  for (const std::string_view name : {std::string_view(), std::string_view(long_name)}) {
    const std::string size = "name_size " + std::to_string(name.size());
    expect_refused(publish(seq, name), KVC_ERR_ARGUMENT, {size.c_str(), "1..64"});
    expect_refused(attach(got, name), KVC_ERR_ARGUMENT, {size.c_str()});
    expect_refused(withdraw(name), KVC_ERR_ARGUMENT, {size.c_str()});
  }
  expect_refused(kvc_seq_publish(seq, nullptr, 3, 0, nullptr, &error), KVC_ERR_ARGUMENT, {"name is NULL"});
  expect_refused(kvc_seq_withdraw(scope, nullptr, 3, &error), KVC_ERR_ARGUMENT, {"name is NULL"});
  expect_refused(kvc_seq_attach(nullptr, scope, "p", 1, nullptr, nullptr, &error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect_refused(attach(got, "no such"), KVC_ERR_NOT_FOUND, {"\"no such\""});
  expect_refused(withdraw("odd\n"), KVC_ERR_NOT_FOUND, {"\"odd?\""});
  seq.reset();
  EXPECT_EQ(info().memory_pinned, 0u);
}

TEST_F(HandoverTest, names_are_limited_as_sequences_are) {
  open(1u << 20, 0, [](kvc_store_options &o) { o.seq_max = 3; });
  SeqHandle seq = written(1, 20), got;
  for (const char *name : {"a", "b", "c"}) ASSERT_EQ(publish(seq, name), KVC_OK) << error.message;
  expect_refused(publish(seq, "d"), KVC_ERR_FULL, {"3 names", "seq_max"});
  ASSERT_EQ(publish(seq, "b"), KVC_OK) << "which replaces: " << error.message;
  clock.advance_ms(1000);
  ASSERT_EQ(publish(seq, "d"), KVC_OK) << "lapsed names make room: " << error.message;
  std::vector<SeqHandle> more(3);
  ASSERT_EQ(attach(more[0], "d"), KVC_OK) << error.message;
  ASSERT_EQ(attach(more[1], "d"), KVC_OK) << error.message;
  expect_refused(attach(more[2], "d"), KVC_ERR_FULL, {"3 sequences"});
}

TEST_F(HandoverTest, what_lost_chunks_after_a_lapse_cannot_be_published) {
  open();
  SeqHandle seq = written(1, 40), got;
  clock.advance_ms(1001);
  pressure();
  expect_refused(publish(seq, "p"), KVC_ERR_GONE, {"0 are left"});
  EXPECT_EQ(attach(got, "p"), KVC_ERR_NOT_FOUND);
}

#ifdef KVC_FAULTS
TEST_F(HandoverTest, refused_memory_at_any_point_changes_nothing_and_leaks_nothing) {
  open();
  SeqHandle seq = written(1, 20), other = written(2, 24), got;
  ASSERT_EQ(publish(seq, "old"), KVC_OK) << error.message;
  const auto sweep = [&](const char *what, auto &&call) {
    for (uint64_t nth = 1;; nth++) {
      ASSERT_LT(nth, 100u);
      const uint64_t used = info().memory_used, pinned = info().memory_pinned;
      ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
      const kvc_status status = call();
      kvc::base::fault_disarm_all();
      if (status == KVC_OK) {
        EXPECT_GT(nth, 1u) << what << ": the point was never reached";
        return;
      }
      EXPECT_EQ(status, KVC_ERR_NO_MEMORY) << what << ": " << error.message;
      EXPECT_EQ(info().memory_used, used) << what;
      EXPECT_EQ(info().memory_pinned, pinned) << what;
      expect_rows(attached("old"), 0, 20, 1);
    }
  };
  sweep("publish", [&] { return publish(other, "new"); });
  sweep("attach", [&] { return attach(got, "new"); });
  sweep("replace", [&] { return publish(other, "old"); });
  expect_rows(got, 0, 24, 2);
  got.reset(), seq.reset(), other.reset();
  ASSERT_EQ(withdraw("old"), KVC_OK);
  ASSERT_EQ(withdraw("new"), KVC_OK);
  EXPECT_EQ(info().memory_pinned, 0u);
}
#endif

TEST_F(HandoverTest, threads_attach_while_a_name_is_published_again_and_again) {
  open(8u << 20);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, found{0};
  std::thread reader([&] {
    std::vector<uint16_t> k, v;
    while (!stop) {
      kvc_seq *seq;
      const kvc_status status = kvc_seq_attach(&seq, scope, "p", 1, nullptr, nullptr, nullptr);
      if (status == KVC_ERR_NOT_FOUND) continue;
      if (status != KVC_OK) { wrong++; continue; }
      const kvc_rows rows = rows_in(k, v, 0, 20);
      wrong += kvc_gather(nullptr, seq, &rows, 1, nullptr, nullptr) != KVC_OK;
      uint64_t writer = 1;
      while (writer <= 300 && k[0] != element(writer, true, 0, 0, 0, 0)) writer++;
      for (uint64_t t = 0; t < 20; t++) wrong += k[t * heads * k_dim] != element(writer, true, 0, t, 0, 0);
      wrong += kvc_seq_release(seq, nullptr) != KVC_OK;
      found++;
    }
  });
  for (uint64_t w = 1; w <= 300; w++) {
    SeqHandle seq = written(w, 20);
    EXPECT_EQ(publish(seq, "p"), KVC_OK) << error.message;
    if (w % 50 == 0) {
      EXPECT_EQ(withdraw("p"), KVC_OK) << error.message;
    }
  }
  SeqHandle last = written(300, 20);
  EXPECT_EQ(publish(last, "p"), KVC_OK) << error.message;
  while (found == 0) std::this_thread::yield();
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(HandoverTest, a_child_process_can_do_none_of_it) {
  open();
  SeqHandle seq = written(1, 20);
  ASSERT_EQ(publish(seq, "p"), KVC_OK) << error.message;
  const pid_t pid = ::fork();
  if (pid == 0) {
    kvc_seq *out = nullptr;
    const bool right = kvc_seq_publish(seq, "q", 1, 0, nullptr, nullptr) == KVC_ERR_FORKED && kvc_seq_attach(&out, scope, "p", 1, nullptr, nullptr, nullptr) == KVC_ERR_FORKED &&
                       kvc_seq_withdraw(scope, "p", 1, nullptr) == KVC_ERR_FORKED;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  expect_rows(attached("p"), 0, 20, 1);
}

}  // namespace
