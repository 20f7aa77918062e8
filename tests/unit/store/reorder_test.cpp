#include <atomic>
#include <random>
#include <thread>

#include "base/fault.h"
#include "stamped_store.h"

/// Beam search: sequences become what others were, all of them or none.
namespace {

using namespace kvc_test;

struct ReorderTest : StampedStore {
  kvc_status reorder(const std::vector<kvc_seq *> &seqs, const std::vector<uint32_t> &source) {
    return kvc_seq_reorder(seqs.data(), source.data(), seqs.size(), &error);
  }
  static std::vector<kvc_seq *> handles(const std::vector<SeqHandle> &seqs) { return {seqs.begin(), seqs.end()}; }
  uint64_t metadata_bytes() const { return internals(store).metadata().used_bytes(); }
};

/// What a beam is: who wrote each of its tokens.
using Beam = std::vector<uint64_t>;

TEST_F(ReorderTest, B19_a_beam_search_with_any_sources_reads_as_the_histories_say) {
  open(8u << 20);
  constexpr size_t beams = 5;
  std::mt19937 random(11);
  std::vector<SeqHandle> seqs;
  std::vector<Beam> histories;
  for (size_t i = 0; i < beams; i++) {
    seqs.push_back(written(i + 1, 20, i % 2 ? KVC_SEQ_PRIVATE : 0));
    histories.push_back(Beam(20, i + 1));
  }
  uint64_t writer = 100;
  for (int step = 0; step < 60; step++) {
    std::vector<uint32_t> source(beams);
    for (uint32_t &s : source) s = static_cast<uint32_t>(random() % beams);
    if (step % 7 == 0) source = {0, 1, 2, 3, 4};
    if (step % 7 == 1) source = {1, 2, 3, 4, 0};
    ASSERT_EQ(reorder(handles(seqs), source), KVC_OK) << error.message;
    std::vector<Beam> next;
    for (const uint32_t s : source) next.push_back(histories[s]);
    histories = next;
    for (size_t i = 0; i < beams; i++) {
      const uint64_t length = histories[i].size(), more = 1 + random() % 3;
      ASSERT_EQ(info(seqs[i]).tokens, length);
      ASSERT_EQ(append(seqs[i], ++writer, length, length + more), KVC_OK) << error.message;
      histories[i].insert(histories[i].end(), more, writer);
    }
    for (size_t i = 0; i < beams; i++) expect_rows(seqs[i], 0, histories[i].size(), [&](uint64_t t) { return Origin{histories[i][t], t}; });
  }
  seqs.clear();
  EXPECT_EQ(info().seq_count, 0u);
  EXPECT_EQ(info().memory_pinned, 0u);
}

TEST_F(ReorderTest, a_sequence_becomes_the_other_with_all_that_it_is) {
  open();
  std::vector<SeqHandle> seqs(2);
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE, options.lease_ms = 777;
  ASSERT_EQ(kvc_seq_create(seqs[0].out(), scope, &options, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seqs[0], 1, 0, 10, false), KVC_OK) << error.message;
  seqs[1] = written(2, 36);
  const kvc_seq_info first = info(seqs[0]), second = info(seqs[1]);
  ASSERT_EQ(reorder(handles(seqs), {1, 0}), KVC_OK) << error.message;
  for (const auto &[now, was] : {std::pair{info(seqs[0]), second}, {info(seqs[1]), first}}) {
    EXPECT_EQ(now.tokens, was.tokens);
    EXPECT_EQ(now.tokens_given, was.tokens_given);
    EXPECT_EQ(now.tokens_sealed, was.tokens_sealed);
    EXPECT_EQ(now.tokens_shareable, was.tokens_shareable);
    EXPECT_EQ(now.lease_left_ms, was.lease_left_ms);
  }
  EXPECT_EQ(info().seq_count, 2u);
}

TEST_F(ReorderTest, what_nobody_becomes_is_let_go_and_what_one_becomes_is_not) {
  open();
  std::vector<SeqHandle> seqs;
  seqs.push_back(written(1, 40, KVC_SEQ_PRIVATE)), seqs.push_back(written(2, 40, KVC_SEQ_PRIVATE));
  EXPECT_EQ(info().chunk_count, 4u);
  ASSERT_EQ(reorder(handles(seqs), {1, 1}), KVC_OK) << error.message;
  EXPECT_EQ(info().chunk_count, 2u) << "the private chunks of the first went with it";
  seqs[1].reset();
  pressure();
  expect_rows(seqs[0], 0, 40, 2);
}

TEST_F(ReorderTest, views_leases_and_forks_of_what_was_given_up_stay) {
  open();
  std::vector<SeqHandle> seqs;
  seqs.push_back(written(1, 20)), seqs.push_back(written(2, 20));
  SeqHandle before = fork(seqs[0]);
  ViewHandle view;
  auto rows = sized<kvc_rows>();
  ASSERT_EQ(kvc_view_acquire(view.out(), &rows, seqs[0], 0, 17, 0, &error), KVC_OK) << error.message;
  ASSERT_EQ(reorder(handles(seqs), {1, 1}), KVC_OK) << error.message;
  pressure();
  expect_rows(before, 0, 20, 1);
  uint16_t number;
  std::memcpy(&number, rows.k.data, 2);
  EXPECT_EQ(number, element(1, true, 0, 16, 0, 0));
  expect_rows(seqs[0], 0, 20, 2);
}

TEST_F(ReorderTest, the_cost_does_not_depend_on_the_length) {
  open(64u << 20, 0, [](kvc_store_options &o) { o.lease_ms = KVC_FOREVER; });
  uint64_t grew[2];
  for (const bool is_long : {false, true}) {
    std::vector<SeqHandle> seqs;
    for (uint64_t i = 0; i < 4; i++) seqs.push_back(written(i + (is_long ? 10 : 1), is_long ? 16 * 300 + 5 : 16 + 5));
    const uint64_t before = metadata_bytes();
    ASSERT_EQ(reorder(handles(seqs), {3, 3, 3, 3}), KVC_OK) << error.message;
    grew[is_long] = metadata_bytes() - before;
    for (SeqHandle &seq : seqs) expect_rows(seq, 0, 16, is_long ? 13 : 4);
  }
  EXPECT_LE(static_cast<int64_t>(grew[1]), static_cast<int64_t>(grew[0])) << "tables of chunks are shared";
}

TEST_F(ReorderTest, a_refused_reorder_names_the_value_and_changes_nothing) {
  open();
  std::vector<SeqHandle> seqs;
  for (uint64_t i = 1; i <= 3; i++) seqs.push_back(written(i, 20));
  ScopeHandle other_scope = make_scope("other");
  SeqHandle stranger = create(0, other_scope), gone = create();
  kvc_seq *const stale = gone;
  gone.reset();
  const std::vector<kvc_seq *> all = handles(seqs);
  const uint32_t zero = 0;
  expect_refused(kvc_seq_reorder(nullptr, &zero, 1, &error), KVC_ERR_ARGUMENT, {"seqs is NULL"});
  expect_refused(kvc_seq_reorder(all.data(), nullptr, 1, &error), KVC_ERR_ARGUMENT, {"source is NULL"});
  expect_refused(kvc_seq_reorder(all.data(), &zero, 0, &error), KVC_ERR_ARGUMENT, {"seq_count 0"});
  expect_refused(kvc_seq_reorder(all.data(), &zero, SIZE_MAX, &error), KVC_ERR_ARGUMENT, {"seq_count"});
  expect_refused(reorder(all, {1, 3, 0}), KVC_ERR_RANGE, {"source[1] is 3", "3 sequences"});
  expect_refused(reorder({all[0], all[1], all[0]}, {1, 0, 0}), KVC_ERR_ARGUMENT, {"seqs[0] and seqs[2]"});
  expect_refused(reorder({all[0], all[1], stranger}, {1, 0, 0}), KVC_ERR_SHAPE, {"seqs[2]", "scope"});
  expect_refused(reorder({all[0], stale}, {1, 0}), KVC_ERR_STALE, {"seqs[1]", "released"});
  expect_refused(reorder({all[0], nullptr}, {1, 0}), KVC_ERR_MISUSE, {"NULL"});
  struct Second : StampedStore {
    void TestBody() override {}
  } there;
  there.open();
  SeqHandle foreign = there.written(9, 20);
  expect_refused(reorder({all[0], foreign}, {1, 0}), KVC_ERR_MISUSE, {"seqs[1]", "another store"});
  for (uint64_t i = 0; i < 3; i++) {
    expect_rows(seqs[i], 0, 20, i + 1);
    ASSERT_EQ(append(seqs[i], i + 1, 20, 21), KVC_OK) << "the handle was left: " << error.message;
  }
}

#ifdef KVC_FAULTS
TEST_F(ReorderTest, refused_memory_at_any_point_changes_nothing_and_leaks_nothing) {
  open();
  std::vector<SeqHandle> seqs;
  for (uint64_t i = 1; i <= 3; i++) seqs.push_back(written(i, 20));
  ASSERT_EQ(reorder(handles(seqs), {1, 2, 0}), KVC_OK) << error.message;
  const uint64_t metadata = metadata_bytes(), used = info().memory_used;
  bool failed = true;
  for (uint64_t nth = 1; failed; nth++) {
    ASSERT_LT(nth, 200u);
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
    const kvc_status status = reorder(handles(seqs), {1, 2, 0});
    kvc::base::fault_disarm_all();
    failed = status != KVC_OK;
    EXPECT_EQ(status, failed ? KVC_ERR_NO_MEMORY : KVC_OK) << error.message;
    const uint64_t turn = failed ? 1 : 2;
    for (uint64_t i = 0; i < 3; i++) expect_rows(seqs[i], 0, 20, (i + turn) % 3 + 1);
    if (!failed) {
      EXPECT_GT(nth, 8u) << "the point was never reached";
    }
    EXPECT_EQ(metadata_bytes(), metadata);
    EXPECT_EQ(info().memory_used, used);
  }
  seqs.clear();
  EXPECT_EQ(info().memory_pinned, 0u);
}
#endif

TEST_F(ReorderTest, lapsed_sequences_are_taken_up_and_what_went_is_gone_in_what_they_become) {
  open();
  std::vector<SeqHandle> seqs;
  seqs.push_back(written(1, 20)), seqs.push_back(written(2, 36));
  clock.advance_ms(1001);
  EXPECT_EQ(info(seqs[1]).lease_left_ms, 0u);
  ASSERT_EQ(reorder(handles(seqs), {1, 0}), KVC_OK) << error.message;
  pressure();
  expect_rows(seqs[0], 0, 36, 2);
  expect_rows(seqs[1], 0, 20, 1);
  clock.advance_ms(1001);
  pressure();
  ASSERT_EQ(reorder(handles(seqs), {1, 0}), KVC_OK) << error.message;
  EXPECT_EQ(info(seqs[0]).tokens_held, 0u);
  expect_refused(append(seqs[0], 1, 20, 21), KVC_ERR_GONE, {"0 are left"});
  ASSERT_EQ(kvc_seq_truncate(seqs[1], 0, &error), KVC_OK) << error.message;
}

TEST_F(ReorderTest, readers_beside_it_see_a_whole_sequence_or_are_refused) {
  open(8u << 20);
  std::vector<SeqHandle> seqs;
  for (uint64_t i = 1; i <= 3; i++) seqs.push_back(written(i, 20));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::thread reader([&] {
    std::vector<uint16_t> k, v;
    while (!stop) {
      kvc_rows rows = rows_in(k, v, 0, 20);
      const kvc_status status = kvc_gather(nullptr, seqs[1], &rows, 1, nullptr, nullptr);
      if (status != KVC_OK && status != KVC_ERR_MISUSE) wrong++;
      if (status != KVC_OK) continue;
      uint64_t writer = 1;
      while (writer <= 3 && k[0] != element(writer, true, 0, 0, 0, 0)) writer++;
      for (uint64_t t = 0; t < 20; t++) wrong += k[t * heads * k_dim] != element(writer, true, 0, t, 0, 0);
    }
  });
  for (int round = 0; round < 2000; round++) {
    const kvc_status status = reorder(handles(seqs), {1, 2, 0});
    if (status != KVC_OK && status != KVC_ERR_MISUSE) wrong++;
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
