#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "limited_host.h"
#ifdef KVC_FAULTS
#include "base/fault.h"
#endif

/// Events (kvc_event_watch): who hears of every chunk that comes and goes knows what the store holds; who is too slow is told so.
namespace {

using namespace kvc_test;
using Name = std::array<uint8_t, 32>;
using QueueHandle = Handle<kvc_queue, kvc_queue_release>;

Name name_of(const uint8_t *bytes) {
  Name name;
  std::copy(bytes, bytes + 32, name.begin());
  return name;
}

/// What events alone tell: which chunks there are, and which ids they stand for.
struct Mirror {
  struct Chunk {
    Name parent;
    std::vector<int32_t> ids;
    uint64_t begin;
  };
  std::map<Name, std::map<Name, Chunk>> scopes;
  uint64_t number = 0, lost = 0, stored = 0, removed = 0, cleared = 0;

  void take(const kvc_event &e) {
    if (e.kind == KVC_EVENT_LOST) lost += e.sequence_number - number;
    EXPECT_TRUE(e.kind == KVC_EVENT_LOST || e.sequence_number == number + 1) << e.sequence_number;
    number = e.sequence_number;
    auto &chunks = scopes[name_of(e.scope)];
    if (e.kind == KVC_EVENT_STORED) {
      stored++;
      EXPECT_NE(e.tokens, nullptr);
      chunks[name_of(e.chunk)] = {name_of(e.parent), {e.tokens, e.tokens + e.token_count}, e.token_begin};
    } else if (e.kind == KVC_EVENT_REMOVED) {
      removed++;
      EXPECT_EQ(e.tokens, nullptr);
      remove(chunks, name_of(e.chunk));
    } else if (e.kind == KVC_EVENT_CLEARED) {
      cleared++;
      chunks.clear();
    }
  }
  /// With what descends from it.
  static void remove(std::map<Name, Chunk> &chunks, const Name &gone) {
    std::vector<Name> left{gone};
    while (!left.empty()) {
      const Name name = left.back();
      left.pop_back();
      chunks.erase(name);
      for (const auto &[child, chunk] : chunks)
        if (chunk.parent == name) left.push_back(child);
    }
  }
  uint64_t found(const Name &scope, const std::vector<int32_t> &ids) {
    Name at = scope;
    uint64_t chunks = 0;
    for (;; chunks++) {
      const std::vector<int32_t> wanted(ids.begin() + static_cast<int64_t>(chunks * 64), ids.begin() + static_cast<int64_t>(std::min<uint64_t>(chunks * 64 + 64, ids.size())));
      const auto next = std::find_if(scopes[scope].begin(), scopes[scope].end(), [&](const auto &c) { return c.second.parent == at && c.second.ids == wanted && c.second.begin == chunks * 64; });
      if (wanted.size() < 64 || next == scopes[scope].end()) return chunks;
      at = next->first;
    }
  }
};

struct EventsTest : testing::Test, LimitedHost {
  ScopeHandle mine = scope("mine"), other = scope("other");
  QueueHandle queue = make_queue();
  Mirror mirror;

  QueueHandle make_queue() {
    kvc_queue *out = nullptr;
    EXPECT_EQ(kvc_queue_create(&out, store, nullptr, &error), KVC_OK) << error.message;
    return QueueHandle(out);
  }
  void watch(kvc_scope *of, uint32_t mask) { ASSERT_EQ(kvc_event_watch(queue, of, mask, &error), KVC_OK) << error.message; }
  std::vector<kvc_event> drain(size_t capacity = 64) {
    std::vector<kvc_event> events(capacity, sized<kvc_event>());
    size_t count = 0;
    EXPECT_EQ(kvc_event_drain(events.data(), capacity, &count, queue, &error), KVC_OK) << error.message;
    events.resize(count);
    return events;
  }
  void follow() {
    for (auto events = drain(); !events.empty(); events = drain())
      for (const kvc_event &e : events) mirror.take(e);
  }
  Name fingerprint(kvc_scope *of) { return name_of(info(of).fingerprint); }
  bool readable() {
    int fd = -1;
    EXPECT_EQ(kvc_queue_fd(&fd, queue, &error), KVC_OK);
    pollfd poll_fd{fd, POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
  }
};

constexpr uint32_t kAll = KVC_EVENT_STORED | KVC_EVENT_REMOVED | KVC_EVENT_MOVED | KVC_EVENT_CLEARED | KVC_EVENT_LOST;

TEST_F(EventsTest, a_chunk_that_is_sealed_is_told_with_its_ids_its_place_and_its_parent) {
  watch(nullptr, kAll);
  EXPECT_FALSE(readable());
  prompt(mine, 1, 3);
  EXPECT_TRUE(readable());
  const auto events = drain();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_FALSE(readable());
  const auto all = ids(3 * 64, 1);
  for (uint64_t c = 0; c < 3; c++) {
    const kvc_event &e = events[c];
    EXPECT_EQ(e.kind, static_cast<uint32_t>(KVC_EVENT_STORED));
    EXPECT_EQ(e.sequence_number, c + 1);
    EXPECT_EQ(e.token_begin, c * 64);
    EXPECT_EQ(e.tier_to, static_cast<uint32_t>(KVC_TIER_HOST));
    EXPECT_EQ(name_of(e.scope), fingerprint(mine));
    EXPECT_EQ(name_of(e.parent), c ? name_of(events[c - 1].chunk) : fingerprint(mine));
    ASSERT_EQ(e.token_count, 64u);
    EXPECT_TRUE(std::equal(e.tokens, e.tokens + 64, all.begin() + static_cast<int64_t>(c * 64)));
  }
  prompt(mine, 1, 3);
  EXPECT_TRUE(drain().empty()) << "nothing came to be";
}

TEST_F(EventsTest, private_chunks_and_objects_are_nobodys_business) {
  watch(nullptr, kAll);
  SeqHandle seq;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  ASSERT_EQ(kvc_seq_create(seq.out(), mine, &options, &error), KVC_OK);
  ASSERT_EQ(append(seq, ids(128), 0, 128), KVC_OK) << error.message;
  ASSERT_EQ(put(mine, "x", 100), KVC_OK);
  seq.reset();
  EXPECT_TRUE(drain().empty());
}

TEST_F(EventsTest, a_filter_takes_scopes_and_kinds_and_ends) {
  watch(mine, KVC_EVENT_STORED);
  prompt(other, 1, 2);
  prompt(mine, 1, 2);
  ASSERT_EQ(kvc_scope_clear(nullptr, mine, nullptr, &error), KVC_OK);
  EXPECT_EQ(drain().size(), 2u);
  watch(nullptr, KVC_EVENT_CLEARED);
  prompt(mine, 1, 1);
  prompt(other, 2, 1);
  ASSERT_EQ(kvc_scope_clear(nullptr, other, nullptr, &error), KVC_OK);
  const auto events = drain();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, static_cast<uint32_t>(KVC_EVENT_STORED));
  EXPECT_EQ(events[1].kind, static_cast<uint32_t>(KVC_EVENT_CLEARED));
  EXPECT_EQ(name_of(events[1].scope), fingerprint(other));
  watch(mine, 0);
  prompt(mine, 3, 1);
  EXPECT_TRUE(drain().empty()) << "all but mine";
  watch(nullptr, 0);
  ASSERT_EQ(kvc_scope_clear(nullptr, other, nullptr, &error), KVC_OK);
  EXPECT_TRUE(drain().empty());
}

TEST_F(EventsTest, a_mirror_of_the_events_equals_the_store_through_evictions_clears_quotas_and_times_to_live) {
  watch(nullptr, kAll);
  const ScopeHandle tight = scope("tight", 60000), brief = scope("brief", 0, 5000);
  kvc_scope *const all[] = {mine, other, tight, brief};
  std::mt19937_64 random(11);
  std::vector<SeqHandle> held;
  for (int i = 0; i < 1500; i++) {
    kvc_scope *of = all[random() % 4];
    const auto salt = static_cast<int32_t>(random() % 40);
    kvc_status status;
    SeqHandle seq = prompt(of, salt, 1 + random() % 12, &status);
    if (random() % 4 == 0) held.push_back(std::move(seq));
    if (held.size() > 8) held.erase(held.begin() + static_cast<int64_t>(random() % held.size()));
    if (random() % 200 == 0) {
      ASSERT_EQ(kvc_scope_clear(nullptr, of, nullptr, &error), KVC_OK);
    }
    clock.advance_ms(random() % 50);
    if (i % 20 == 0) follow();
    if (i % 250 != 249) continue;
    for (kvc_scope *scope : all)
      for (int32_t s = 0; s < 40; s++) {
        const uint64_t holds = found(scope, s, 12);
        follow();  // what a look found too old
        ASSERT_EQ(mirror.found(fingerprint(scope), ids(12 * 64, s)), holds) << i;
      }
  }
  EXPECT_EQ(mirror.lost, 0u);
  EXPECT_GT(mirror.removed, 200u);
  EXPECT_GT(mirror.cleared, 3u);
  EXPECT_GT(metrics().evicted_chunks, 100u);
}

TEST_F(EventsTest, a_slow_reader_is_told_of_its_loss_once_where_it_was_and_goes_on_from_there) {
  watch(mine, kAll);
  const ScopeHandle tight = scope("mine", 30000);
  uint64_t made = 0, told_number = 0;
  for (int32_t p = 0; p < 20; p++) prompt(mine, p, 1);
  for (const kvc_event &e : drain(10)) EXPECT_EQ(e.sequence_number, ++made);
  for (int32_t p = 20; p < 3000; p++) prompt(mine, p, 1);
  bool told = false;
  for (auto events = drain(100); !events.empty(); events = drain(100))
    for (const kvc_event &e : events) {
      EXPECT_FALSE(told) << "the loss is the last of it";
      told = e.kind == KVC_EVENT_LOST;
      if (!told) made++;
      else told_number = e.sequence_number;
      EXPECT_TRUE(told ? e.sequence_number > made + 1 : e.sequence_number == made) << e.sequence_number;
    }
  EXPECT_TRUE(told);
  EXPECT_EQ(made, 4096u);
  EXPECT_FALSE(readable());
  prompt(mine, 5000, 1);
  const auto events = drain();
  ASSERT_FALSE(events.empty());
  for (const kvc_event &e : events) {
    EXPECT_NE(e.kind, static_cast<uint32_t>(KVC_EVENT_LOST));
    EXPECT_EQ(e.sequence_number, ++told_number) << "the gap ended at the loss";
  }
}

TEST_F(EventsTest, a_clear_is_told_once_and_not_for_each_chunk) {
  watch(nullptr, kAll);
  prompt(mine, 1, 5);
  prompt(other, 1, 1);
  EXPECT_EQ(drain().size(), 6u);
  ASSERT_EQ(kvc_scope_clear(nullptr, mine, nullptr, &error), KVC_OK);
  const auto events = drain();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, static_cast<uint32_t>(KVC_EVENT_CLEARED));
  EXPECT_EQ(name_of(events[0].scope), fingerprint(mine));
}

TEST_F(EventsTest, ids_are_in_one_piece_also_where_the_ring_of_ids_ends_within_a_chunk) {
  constexpr uint64_t chunk = 48, chunks = 12;  // of 262,144 ids, which are no multiple
  const ScopeHandle scope = make_scope(store, "48", {full_layers(1, 1, dim, dim)}, KVC_F16, chunk);
  watch(scope, KVC_EVENT_STORED);
  for (int32_t p = 0; p < 1000; p++) {
    const auto all = ids(chunk * chunks, p);
    SeqHandle seq;
    ASSERT_EQ(kvc_seq_create(seq.out(), scope, nullptr, &error), KVC_OK) << error.message;
    ASSERT_EQ(append(seq, all, 0, all.size()), KVC_OK) << error.message;
    const auto events = drain();
    ASSERT_EQ(events.size(), chunks);
    for (size_t c = 0; c < chunks; c++) ASSERT_TRUE(std::equal(events[c].tokens, events[c].tokens + chunk, all.begin() + static_cast<int64_t>(c * chunk))) << p << ", " << c;
  }
}

TEST_F(EventsTest, ids_stay_as_they_are_until_the_next_drain_whatever_is_stored_meanwhile) {
  watch(mine, KVC_EVENT_STORED);
  for (int32_t p = 0; p < 50; p++) prompt(mine, p, 2);
  const auto lent = drain(30);
  ASSERT_EQ(lent.size(), 30u);
  for (int32_t p = 100; p < 6000; p++) prompt(mine, p, 1);  // more than the ring has room for
  for (size_t i = 0; i < lent.size(); i++) {
    const auto all = ids(128, static_cast<int32_t>(i / 2));
    ASSERT_TRUE(std::equal(lent[i].tokens, lent[i].tokens + 64, all.begin() + static_cast<int64_t>(i % 2 * 64))) << i;
  }
}

TEST_F(EventsTest, several_queues_hear_the_same_and_a_released_one_hears_no_more) {
  watch(nullptr, kAll);
  {
    QueueHandle second = make_queue();
    ASSERT_EQ(kvc_event_watch(second, nullptr, kAll, &error), KVC_OK);
    prompt(mine, 1, 2);
    std::array<kvc_event, 8> events;
    events.fill(sized<kvc_event>());
    size_t count = 0;
    ASSERT_EQ(kvc_event_drain(events.data(), 8, &count, second, &error), KVC_OK);
    EXPECT_EQ(count, 2u);
  }
  prompt(mine, 2, 2);
  EXPECT_EQ(drain().size(), 4u);
}

TEST_F(EventsTest, wrong_calls_say_so) {
  auto event = sized<kvc_event>();
  size_t count = 7;
  EXPECT_EQ(kvc_event_watch(queue, nullptr, 64, &error), KVC_ERR_TOO_NEW);
  EXPECT_EQ(kvc_event_watch(nullptr, nullptr, 1, &error), KVC_ERR_MISUSE);
  EXPECT_EQ(kvc_event_drain(nullptr, 1, &count, queue, &error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_event_drain(&event, 0, &count, queue, &error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_event_drain(&event, 1, nullptr, queue, &error), KVC_ERR_ARGUMENT);
  event.size = 0;
  EXPECT_EQ(kvc_event_drain(&event, 1, &count, queue, &error), KVC_ERR_ARGUMENT);
  LimitedHost second;
  const ScopeHandle foreign = second.scope("foreign");
  EXPECT_EQ(kvc_event_watch(queue, foreign, 1, &error), KVC_ERR_MISUSE);
  kvc_queue *gone = make_queue().release();
  ASSERT_EQ(kvc_queue_release(gone, nullptr), KVC_OK);
  EXPECT_EQ(kvc_event_watch(gone, nullptr, 1, &error), KVC_ERR_STALE);
}

TEST_F(EventsTest, threads_that_store_clear_and_drain_at_once_lose_no_order) {
  watch(nullptr, kAll);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) follow();
    follow();
  });
  std::vector<std::thread> writers;
  for (int32_t t = 0; t < 3; t++)
    writers.emplace_back([&, t] {
      const auto all = ids(64 * 2, t);
      for (int i = 0; i < 150; i++) {
        kvc_seq *seq = nullptr;
        auto match = sized<kvc_match_info>();
        EXPECT_EQ(kvc_match(&seq, &match, mine, all.data(), all.size(), nullptr, nullptr, nullptr), KVC_OK);
        auto rows = sized<kvc_rows>();
        rows.layer_count = 1, rows.token_begin = match.tokens, rows.token_count = all.size() - match.tokens;
        rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
        if (match.tokens < all.size()) {
          EXPECT_EQ(kvc_append(seq, all.data() + match.tokens, all.size() - match.tokens, &rows, 1, nullptr, nullptr), KVC_OK);
        }
        EXPECT_EQ(kvc_seq_release(seq, nullptr), KVC_OK);
        if (i % 10 == 9) {
          EXPECT_EQ(kvc_scope_clear(nullptr, mine, nullptr, nullptr), KVC_OK);
        }
      }
    });
  for (std::thread &w : writers) w.join();
  done = true;
  reader.join();
  EXPECT_EQ(mirror.lost, 0u);
  for (int32_t t = 0; t < 3; t++) EXPECT_EQ(mirror.found(fingerprint(mine), ids(128, t)), found(mine, t, 2));
}

TEST_F(EventsTest, who_polls_edges_hears_of_results_while_events_wait_and_of_events_while_results_do) {
  int fd = -1;
  ASSERT_EQ(kvc_queue_fd(&fd, queue, &error), KVC_OK);
  const int poller = epoll_create1(0);
  epoll_event wanted{}, got{};
  wanted.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &wanted), 0);
  const auto edge = [&](int milliseconds) { return epoll_wait(poller, &got, 1, milliseconds) == 1; };
  const auto results = [&] {
    kvc_result result = sized<kvc_result>();
    size_t count = 0;
    EXPECT_EQ(kvc_queue_drain(&result, 1, &count, queue, 0, &error), KVC_OK);
    return count;
  };
  kvc_call call = sized<kvc_call>();
  call.queue = queue;
  watch(nullptr, kAll);
  prompt(mine, 1, 1);
  EXPECT_TRUE(edge(10000)) << "an event";
  for (int i = 0; i < 2; i++) {  // nobody takes it
    ASSERT_EQ(kvc_scope_clear(nullptr, other, &call, &error), KVC_OK) << error.message;
    EXPECT_TRUE(edge(10000)) << "a result behind it";
    EXPECT_EQ(results(), 1u);
  }
  EXPECT_TRUE(readable()) << "events wait still";
  EXPECT_FALSE(drain().empty());
  EXPECT_FALSE(readable());
  ASSERT_EQ(kvc_scope_clear(nullptr, other, &call, &error), KVC_OK) << error.message;
  EXPECT_TRUE(edge(10000)) << "a result, and an event that it makes";
  while (!readable()) std::this_thread::yield();
  drain();
  prompt(mine, 2, 1);
  EXPECT_TRUE(edge(10000)) << "an event behind a result that nobody takes";
  EXPECT_EQ(results(), 1u);
  close(poller);
}

#ifdef KVC_FAULTS
TEST_F(EventsTest, a_watch_that_memory_was_refused_for_watches_nothing) {
  ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", 1, 1));
  EXPECT_EQ(kvc_event_watch(queue, nullptr, kAll, &error), KVC_ERR_NO_MEMORY);
  kvc::base::fault_disarm_all();
  prompt(mine, 1, 1);
  EXPECT_TRUE(drain().empty());
  watch(nullptr, kAll);
  prompt(mine, 2, 1);
  EXPECT_EQ(drain().size(), 1u);
}
#endif

}  // namespace
