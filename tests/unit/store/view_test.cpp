#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/fault.h"
#include "codec/frame.h"
#include "stamped_store.h"

/// Pages lent in place: they stay, unchanged, until they are released, whatever becomes of their sequence.
namespace {

using namespace kvc_test;

struct ViewTest : StampedStore {
  struct View {
    kvc_rows rows = sized<kvc_rows>();
    ViewHandle handle;
  };
  View view(const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags = 0) {
    View out;
    EXPECT_EQ(kvc_view_acquire(out.handle.out(), &out.rows, seq, layer, token, flags, &error), KVC_OK) << error.message;
    return out;
  }
  kvc_status acquire(const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags = 0) {
    auto *out = reinterpret_cast<kvc_view *>(7);
    auto rows = sized<kvc_rows>();
    const kvc_status status = kvc_view_acquire(&out, &rows, seq, layer, token, flags, &error);
    if (status != KVC_OK) {
      EXPECT_EQ(out, nullptr);
      EXPECT_EQ(rows.k.data, nullptr) << "a refused view says where nothing lies";
    } else {
      EXPECT_EQ(kvc_view_release(out, nullptr), KVC_OK);
    }
    return status;
  }
  /// Every element that the rows describe, read as a host would: by strides alone.
  void expect_view(const kvc_rows &rows, uint64_t writer) {
    uint64_t wrong = 0;
    for (const bool is_k : {true, false}) {
      const kvc_array &side = is_k ? rows.k : rows.v;
      ASSERT_EQ(side.dtype, static_cast<uint32_t>(KVC_F16));
      for (uint64_t t = 0; t < rows.token_count; t++)
        for (uint64_t h = 0; h < rows.head_count; h++)
          for (uint64_t d = 0; d < (is_k ? k_dim : v_dim); d++) {
            const uint64_t at = t * side.token_stride + h * side.head_stride + d * side.dim_stride;
            ASSERT_LE(at + 2, side.bytes);
            uint16_t number;
            std::memcpy(&number, static_cast<const char *>(side.data) + at, 2);
            wrong += number != element(writer, is_k, rows.layer_begin, rows.token_begin + t, h, d);
          }
    }
    EXPECT_EQ(wrong, 0u);
  }
};

TEST_F(ViewTest, a_view_of_any_token_describes_its_page_element_by_element) {
  open();
  SeqHandle seq = written(1, 40);
  for (uint32_t layer = 0; layer < layers; layer++)
    for (uint64_t token = 0; token < 40; token += 3) {
      const View v = view(seq, layer, token);
      EXPECT_EQ(v.rows.layer_begin, layer);
      EXPECT_EQ(v.rows.layer_count, 1u);
      EXPECT_EQ(v.rows.head_count, heads);
      EXPECT_EQ(v.rows.token_begin, token / chunk * chunk);
      EXPECT_EQ(v.rows.token_count, token < 32 ? 16u : 8u);
      EXPECT_EQ(v.rows.memory, static_cast<uint32_t>(KVC_MEMORY_HOST));
      expect_view(v.rows, 1);
    }
}

TEST_F(ViewTest, the_rows_of_a_view_are_rows_for_an_append) {
  open();
  SeqHandle seq = written(1, 40), copy = create(KVC_SEQ_PRIVATE);
  for (const uint64_t token : {0, 16, 32}) {
    std::vector<View> views;
    std::vector<kvc_rows> rows;
    for (uint32_t layer = 0; layer < layers; layer++) {
      views.push_back(view(seq, layer, token));
      rows.push_back(views.back().rows);
    }
    ASSERT_EQ(kvc_append(copy, nullptr, 0, rows.data(), rows.size(), nullptr, &error), KVC_OK) << error.message;
  }
  expect_rows(copy, 0, 40, 1);
}

TEST_F(ViewTest, an_open_page_stays_as_it_was_when_its_sequence_goes_on_and_is_cut_and_is_sealed) {
  open();
  SeqHandle seq = written(1, 20);
  const View before = view(seq, 1, 18);
  EXPECT_EQ(before.rows.token_count, 4u);
  ASSERT_EQ(append(seq, 1, 20, 21), KVC_OK) << error.message;
  const View longer = view(seq, 1, 18);
  EXPECT_EQ(longer.rows.token_count, 5u);
  EXPECT_NE(longer.rows.k.data, before.rows.k.data) << "the page was copied before it was written";
  ASSERT_EQ(kvc_seq_truncate(seq, 17, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 9, 17, 40), KVC_OK) << error.message;
  expect_rows(seq, 0, 40, [](uint64_t t) { return Origin{t < 17 ? 1u : 9u, t}; });
  expect_view(before.rows, 1);
  expect_view(longer.rows, 1);
}

TEST_F(ViewTest, a_page_that_was_viewed_and_let_go_is_written_in_place_again) {
  open();
  SeqHandle seq = written(1, 4);
  const void *at = view(seq, 0, 0).rows.k.data;
  ASSERT_EQ(append(seq, 1, 4, 5), KVC_OK) << error.message;
  EXPECT_EQ(view(seq, 0, 0).rows.k.data, at);
}

TEST_F(ViewTest, B47_a_view_outlives_its_sequence_its_scope_and_all_pressure) {
  for (const uint32_t flags : {0u, static_cast<uint32_t>(KVC_SEQ_PRIVATE)}) {
    open(1u << 18, KVC_OPEN_ZERO);
    SeqHandle seq = written(1, 40, flags);
    std::vector<View> views;
    for (const uint64_t token : {0, 16, 32}) views.push_back(view(seq, 2, token));
    seq.reset();
    EXPECT_EQ(info().view_count, 3u);
    const uint64_t pinned = info().memory_pinned;
    EXPECT_GT(pinned, 0u);
    scope.reset();
    scope = make_scope("others");
    clock.advance_ms(100000);
    pressure();
    for (const View &v : views) expect_view(v.rows, 1);
    EXPECT_EQ(info().memory_pinned, pinned) << "nothing else is held";
    views.clear();
    EXPECT_EQ(info().view_count, 0u);
    EXPECT_EQ(info().memory_pinned, 0u);
    scope.reset();
    store.reset();
  }
}

TEST_F(ViewTest, an_open_page_that_is_viewed_counts_against_the_quota_of_its_scope_also_when_nobody_else_uses_that) {
  open();
  written(1, chunk);
  const uint64_t chunk_bytes = info().memory_used;
  ScopeHandle limited = make_scope("limited", chunk_bytes);
  const auto writes = [&] {
    SeqHandle seq = create(0, limited);
    return append(seq, 2, 0, 1);
  };
  SeqHandle seq = create(0, limited);
  ASSERT_EQ(append(seq, 1, 0, 1), KVC_OK) << error.message;
  View one = view(seq, 0, 0), two = view(seq, 1, 0);
  seq.reset();
  limited.reset();
  limited = make_scope("limited", chunk_bytes);
  expect_refused(writes(), KVC_ERR_FULL, {"the scope holds"});
  limited.reset();
  one.handle.reset();
  expect_view(two.rows, 1);
  two.handle.reset();
  EXPECT_EQ(info().memory_used, chunk_bytes);
  limited = make_scope("limited", chunk_bytes);
  EXPECT_EQ(writes(), KVC_OK) << error.message;
}

TEST_F(ViewTest, private_chunks_go_with_the_last_view_of_them) {
  open();
  SeqHandle seq = written(1, 48, KVC_SEQ_PRIVATE);
  View last = view(seq, 0, 47), first = view(seq, 0, 0);
  EXPECT_EQ(info().chunk_count, 3u);
  seq.reset();
  EXPECT_EQ(info().chunk_count, 3u);
  last.handle.reset();
  EXPECT_EQ(info().chunk_count, 1u) << "what leads to no view is gone";
  expect_view(first.rows, 1);
  first.handle.reset();
  EXPECT_EQ(info().chunk_count, 0u);
  EXPECT_EQ(info().memory_used, 0u);
}

#ifdef KVC_FAULTS
TEST_F(ViewTest, a_page_that_fails_its_check_stays_readable_in_the_views_that_had_it) {
  open(1u << 20, KVC_OPEN_VERIFY_READS);
  SeqHandle seq = written(1, 32);
  const View v = view(seq, 0, 0);
  ASSERT_TRUE(kvc::base::fault_arm("store.page.verify", 1, 1));
  EXPECT_EQ(acquire(seq, 1, 3), KVC_ERR_GONE) << "checked on every read";
  kvc::base::fault_disarm_all();
  expect_refused(acquire(seq, 0, 3), KVC_ERR_GONE, {"token 0"});
  seq.reset();
  pressure();
  expect_view(v.rows, 1);
}
#endif

TEST_F(ViewTest, a_fork_that_shares_the_open_page_writes_its_own) {
  open();
  SeqHandle seq = written(1, 20), other = fork(seq);
  const View v = view(other, 0, 17);
  other.reset();
  ASSERT_EQ(kvc_seq_truncate(seq, 17, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 5, 17, 33), KVC_OK) << error.message;
  expect_view(v.rows, 1);
  expect_rows(seq, 0, 33, [](uint64_t t) { return Origin{t < 17 ? 1u : 5u, t}; });
}

TEST_F(ViewTest, what_was_cut_into_a_sealed_chunk_shows_only_what_is_left) {
  open();
  SeqHandle seq = written(1, 32);
  ASSERT_EQ(kvc_seq_truncate(seq, 20, &error), KVC_OK) << error.message;
  const View v = view(seq, 1, 19);
  EXPECT_EQ(v.rows.token_begin, 16u);
  EXPECT_EQ(v.rows.token_count, 4u);
  expect_refused(acquire(seq, 1, 20), KVC_ERR_RANGE, {"layer 1", "20"});
  ASSERT_EQ(append(seq, 2, 20, 40), KVC_OK) << error.message;
  seq.reset();
  pressure();
  expect_view(v.rows, 1);
}

TEST_F(ViewTest, a_layer_shows_its_rows_before_other_layers_have_them) {
  open();
  SeqHandle seq = create();
  ASSERT_EQ(append(seq, 1, 0, 10, true, 1, 1), KVC_OK) << error.message;
  const View v = view(seq, 1, 9);
  EXPECT_EQ(v.rows.token_count, 10u);
  expect_view(v.rows, 1);
  expect_refused(acquire(seq, 0, 0), KVC_ERR_RANGE, {"layer 0", "0 are filled"});
  ASSERT_EQ(append(seq, 1, 0, 10, false, 0, 1), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 1, 0, 10, false, 2, 1), KVC_OK) << error.message;
  expect_rows(seq, 0, 10, 1);
}

TEST_F(ViewTest, a_frame_is_the_512_bytes_of_the_header_and_the_sections_it_sums) {
  open();
  SeqHandle seq = written(1, 20);
  for (uint32_t layer = 0; layer < layers; layer++) {
    const View frame = view(seq, layer, 5, KVC_VIEW_FRAME), page = view(seq, layer, 5);
    EXPECT_EQ(frame.rows.k.dtype, static_cast<uint32_t>(KVC_U8));
    EXPECT_EQ(frame.rows.v.dtype, static_cast<uint32_t>(KVC_U8));
    ASSERT_EQ(frame.rows.k.bytes, 512u);
    kvc::codec::FrameHeader header;
    kvc::base::Error bad;
    ASSERT_EQ(kvc::codec::frame_decode(header, static_cast<const uint8_t *>(frame.rows.k.data), 512 + frame.rows.v.bytes, bad), KVC_OK) << bad.message;
    EXPECT_EQ(header.layer, layer);
    EXPECT_EQ(header.tokens, chunk);
    const kvc::codec::Section &k = header.sections[kvc::codec::section_k_exact], &v = header.sections[kvc::codec::section_v_exact];
    const auto *sections = static_cast<const uint8_t *>(frame.rows.v.data);
    EXPECT_EQ(sections + k.offset - 512, page.rows.k.data);
    EXPECT_EQ(sections + v.offset - 512, page.rows.v.data);
    EXPECT_EQ(k.bytes, page.rows.k.bytes);
    EXPECT_EQ(v.bytes, page.rows.v.bytes);
    EXPECT_EQ(kvc::kernels::table().sum(sections + k.offset - 512, k.bytes), k.sum);
    EXPECT_EQ(kvc::kernels::table().sum(sections + v.offset - 512, v.bytes), v.sum);
  }
  expect_refused(acquire(seq, 0, 16, KVC_VIEW_FRAME), KVC_ERR_UNSUPPORTED, {"KVC_VIEW_FRAME", "16"});
}

TEST_F(ViewTest, a_store_is_not_closed_while_views_are_held_and_says_how_many) {
  open();
  SeqHandle seq = written(1, 20);
  View a = view(seq, 0, 0), b = view(seq, 0, 18);
  expect_refused(kvc_close(store, &error), KVC_ERR_BUSY, {"2 views and 0 regions"});
  expect_view(a.rows, 1);
  ASSERT_EQ(append(seq, 1, 20, 30), KVC_OK) << "nothing was closed: " << error.message;
  a.handle.reset();
  expect_refused(kvc_close(store, &error), KVC_ERR_BUSY, {"1 view and"});
  b.handle.reset();
  seq.release(), scope.release();
  EXPECT_EQ(kvc_close(store.release(), &error), KVC_OK) << error.message;
}

TEST_F(ViewTest, over_view_max_is_busy_until_one_is_released) {
  open(1u << 20, 0, [](kvc_store_options &o) { o.view_max = 3; });
  SeqHandle seq = written(1, 20);
  std::vector<View> held;
  for (int i = 0; i < 3; i++) held.push_back(view(seq, 0, 18));
  expect_refused(acquire(seq, 0, 18), KVC_ERR_BUSY, {"3 views", "view_max"});
  held.pop_back();
  EXPECT_EQ(acquire(seq, 0, 18), KVC_OK) << error.message;
  held.clear();
  EXPECT_EQ(info().view_count, 0u);
}

TEST_F(ViewTest, what_is_refused_names_the_value_and_holds_nothing) {
  open();
  SeqHandle seq = written(1, 20);
  const uint64_t pinned = info().memory_pinned;
  auto rows = sized<kvc_rows>();
  kvc_view *out = nullptr;
  expect_refused(acquire(seq, 3, 0), KVC_ERR_RANGE, {"layer 3"});
  expect_refused(acquire(seq, UINT32_MAX, 0), KVC_ERR_RANGE, {"layer"});
  expect_refused(acquire(seq, 0, 20), KVC_ERR_RANGE, {"token 20"});
  expect_refused(acquire(seq, 0, KVC_ALL), KVC_ERR_RANGE, {"token"});
  expect_refused(acquire(seq, 0, 0, 2), KVC_ERR_TOO_NEW, {"0x2"});
  expect_refused(kvc_view_acquire(nullptr, &rows, seq, 0, 0, 0, &error), KVC_ERR_ARGUMENT, {"out"});
  expect_refused(kvc_view_acquire(&out, nullptr, seq, 0, 0, 0, &error), KVC_ERR_ARGUMENT, {"rows"});
  rows.size = 0;
  expect_refused(kvc_view_acquire(&out, &rows, seq, 0, 0, 0, &error), KVC_ERR_ARGUMENT, {"rows.size"});
  EXPECT_EQ(info().view_count, 0u);
  EXPECT_EQ(info().memory_pinned, pinned);
}

TEST_F(ViewTest, a_second_release_is_stale_also_when_two_threads_try) {
  open();
  SeqHandle seq = written(1, 20);
  for (int round = 0; round < 200; round++) {
    kvc_view *v = view(seq, 0, round % 20u).handle.release();
    kvc_status first, second;
    std::thread other([&] { first = kvc_view_release(v, nullptr); });
    second = kvc_view_release(v, nullptr);
    other.join();
    EXPECT_EQ((first == KVC_OK) + (second == KVC_OK), 1);
    expect_refused(kvc_view_release(v, &error), KVC_ERR_STALE, {"kvc_view", "released"});
  }
  EXPECT_EQ(info().view_count, 0u);
}

TEST_F(ViewTest, a_lapsed_sequence_is_taken_up_by_a_view_or_is_gone) {
  open(1u << 18);
  SeqHandle seq = written(1, 32);
  clock.advance_ms(1001);
  EXPECT_EQ(info().memory_pinned, 0u);
  EXPECT_EQ(acquire(seq, 0, 31), KVC_OK) << error.message;
  EXPECT_GT(info().memory_pinned, 0u) << "a view is a use";
  clock.advance_ms(1001);
  pressure();
  expect_refused(acquire(seq, 0, 0), KVC_ERR_GONE, {"0"});
}

TEST_F(ViewTest, a_child_process_can_neither_take_nor_release_one) {
  open();
  SeqHandle seq = written(1, 20);
  const View v = view(seq, 0, 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto rows = sized<kvc_rows>();
    kvc_view *out = nullptr;
    const bool right = kvc_view_acquire(&out, &rows, seq, 0, 0, 0, nullptr) == KVC_ERR_FORKED && kvc_view_release(v.handle, nullptr) == KVC_ERR_FORKED;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  expect_view(v.rows, 1);
}

TEST_F(ViewTest, threads_take_and_release_views_while_a_fork_writes_on) {
  open(1u << 22);
  SeqHandle seq = written(1, 24), writer = fork(seq);
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; t++)
    readers.emplace_back([&] {
      while (!stop) {
        auto rows = sized<kvc_rows>();
        kvc_view *out;
        if (kvc_view_acquire(&out, &rows, seq, 2, 23, 0, nullptr) != KVC_OK) { wrong++; continue; }
        for (uint64_t t2 = 0; t2 < rows.token_count; t2++) {
          uint16_t number;
          std::memcpy(&number, static_cast<const char *>(rows.k.data) + t2 * rows.k.token_stride, 2);
          wrong += number != element(1, true, 2, 16 + t2, 0, 0);
        }
        if (kvc_view_release(out, nullptr) != KVC_OK) wrong++;
      }
    });
  for (int round = 0; round < 200; round++) {
    ASSERT_EQ(append(writer, 7, 24, 40), KVC_OK) << error.message;
    ASSERT_EQ(kvc_seq_truncate(writer, 24, &error), KVC_OK) << error.message;
    if (round % 10 == 0) writer = fork(seq);
  }
  stop = true;
  for (std::thread &t : readers) t.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
