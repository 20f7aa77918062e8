// Several threads on the same prefixes, with too little room for all.  Every call is recorded with the order of its begin and end; what the
// records must satisfy is checked afterwards:
//   whole     a chunk that was read is of one writer, every element of it, and of a writer of exactly this chunk who had begun before;
//   register  under its name a chunk is written once until it is evicted: from the first time that somebody held it in one writer's form to the
//             last, nobody held it in another's, and a writer whose form was replaced never comes back;
//   present   while somebody holds a chunk, a match that begins and ends meanwhile finds it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "../unit/api/host.h"

namespace kvc::model {
namespace {

constexpr uint32_t kLayers = 2, kHeads = 2, kDim = 32, kTokens = 16, kChunks = 4, kPrefixes = 8, kThreads = 4;
constexpr uint32_t kPrefixTokens = kTokens * kChunks;
#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 600;
#else
constexpr int kRounds = 4000;
#endif

uint32_t element(uint32_t writer, uint32_t side, uint32_t layer, uint32_t token, uint32_t head, uint32_t dim) {
  const uint32_t place = (((side * kLayers + layer) * kPrefixTokens + token) * kHeads + head) * kDim + dim;
  return writer << 14 | (place * 2654435761u) >> 18;
}

/// The rows of a whole prefix, packed.
struct Rows {
  std::vector<uint32_t> side[2] = {std::vector<uint32_t>(kLayers * kPrefixTokens * kHeads * kDim), std::vector<uint32_t>(kLayers * kPrefixTokens * kHeads * kDim)};
  uint32_t &at(uint32_t s, uint32_t l, uint32_t t, uint32_t h, uint32_t d) { return side[s][((l * kPrefixTokens + t) * kHeads + h) * kDim + d]; }
  void fill(uint32_t writer) {
    for (uint32_t s = 0; s < 2; s++)
      for (uint32_t l = 0; l < kLayers; l++)
        for (uint32_t t = 0; t < kPrefixTokens; t++)
          for (uint32_t h = 0; h < kHeads; h++)
            for (uint32_t d = 0; d < kDim; d++) at(s, l, t, h, d) = element(writer, s, l, t, h, d);
  }
  kvc_rows of(uint32_t layer, uint32_t layers, uint32_t begin, uint32_t end) {
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_begin = layer;
    rows.layer_count = layers;
    rows.token_begin = rows.slot_begin = begin;
    rows.token_count = end - begin;
    for (uint32_t s = 0; s < 2; s++) {
      kvc_array &array = s ? rows.v : rows.k;
      array.data = &at(s, layer, 0, 0, 0);
      array.layer_stride = kPrefixTokens * kHeads * kDim * sizeof(uint32_t);
      array.bytes = array.layer_stride * layers;
    }
    return rows;
  }
  /// Whose chunk it is; 0: not of one writer.
  uint32_t writer_of(uint32_t chunk) {
    const uint32_t writer = at(0, 0, chunk * kTokens, 0, 0) >> 14;
    for (uint32_t s = 0; s < 2; s++)
      for (uint32_t l = 0; l < kLayers; l++)
        for (uint32_t t = chunk * kTokens; t < (chunk + 1) * kTokens; t++)
          for (uint32_t h = 0; h < kHeads; h++)
            for (uint32_t d = 0; d < kDim; d++)
              if (at(s, l, t, h, d) != element(writer, s, l, t, h, d)) return 0;
    return writer;
  }
};

/// One sequence's life on one prefix.
struct Record {
  uint32_t prefix = 0, found = 0;
  uint64_t match_begin = 0, match_end = 0, append_end = 0, release_begin = 0;
  uint32_t own = 0;               // the writer we are; 0: did not append
  uint32_t writers[kChunks] = {};  // of each chunk held; 0: none
  bool leased = false;
  uint64_t hold_begin(uint32_t chunk) const { return chunk < found ? match_end : append_end; }
};

class World {
 public:
  explicit World(uint64_t room_bytes) {
    std::vector<uint8_t> ballast((2 << 20) - room_bytes);
    kvc_bytes part{ballast.data(), ballast.size()};
    kvc_object object{};
    object.key = "ballast", object.key_size = 7, object.parts = &part, object.part_count = 1;
    EXPECT_EQ(kvc_object_put(nullptr, host_.scope, &object, 1, nullptr, nullptr, &host_.error), KVC_OK) << host_.error.message;
    kvc_object_options oo;
    KVC_INIT(&oo);
    oo.flags = KVC_OBJECT_LEASE, oo.lease_ms = KVC_FOREVER;
    kvc_result result;
    KVC_INIT(&result);
    EXPECT_EQ(kvc_object_exists(&result, host_.scope, &object, 1, &oo, nullptr, &host_.error), KVC_OK) << host_.error.message;
    std::mt19937 random(1);
    for (auto &ids : prefixes_) {
      ids.resize(kPrefixTokens);
      for (int32_t &id : ids) id = static_cast<int32_t>(random());
    }
    for (uint32_t p = 1; p < kPrefixes; p += 2) std::copy_n(prefixes_[p - 1].begin(), kPrefixTokens / 2, prefixes_[p].begin());  // half in common
  }

  /// Chunks in common have one name: that of the first prefix that has them.
  static uint32_t register_of(uint32_t prefix, uint32_t chunk) { return (chunk < kChunks / 2 ? prefix & ~1u : prefix) * kChunks + chunk; }

  /// Match, append what is missing, read, let go.  False: some call failed otherwise than it may; `why` says how.
  bool life(Record &r, uint32_t writer, bool by_layer, bool lease, std::string *why) {
    kvc_error error;
    KVC_INIT(&error);
    const auto failed = [&](const char *call) { return *why = std::string(call) + ": " + error.message, false; };
    kvc_match_info info;
    KVC_INIT(&info);
    kvc_seq_options o;
    KVC_INIT(&o);
    o.lease_ms = KVC_FOREVER;
    kvc_seq *seq;
    const std::vector<int32_t> &ids = prefixes_[r.prefix];
    r.match_begin = ++time_;
    if (kvc_match(&seq, &info, host_.scope, ids.data(), ids.size(), &o, nullptr, &error) != KVC_OK) return failed("match");
    r.match_end = ++time_;
    r.found = static_cast<uint32_t>(info.tokens) / kTokens;
    Rows rows;
    uint32_t held = r.found;
    if (held < kChunks && writer) {
      const uint32_t begin = held * kTokens;
      rows.fill(writer);
      kvc_status status = KVC_OK;
      if (by_layer) {
        for (uint32_t l = kLayers; l-- && status == KVC_OK;) {
          const kvc_rows run = rows.of(l, 1, begin, kPrefixTokens);
          const bool first = l == kLayers - 1;
          status = kvc_append(seq, first ? ids.data() + begin : nullptr, first ? kPrefixTokens - begin : 0, &run, 1, nullptr, &error);
        }
      } else {
        const kvc_rows run = rows.of(0, kLayers, begin, kPrefixTokens);
        status = kvc_append(seq, ids.data() + begin, kPrefixTokens - begin, &run, 1, nullptr, &error);
      }
      if (status != KVC_OK && status != KVC_ERR_FULL) return failed("append");
      r.append_end = ++time_;
      if (status == KVC_OK) r.own = writer, held = kChunks;
    }
    kvc_lease *kept = nullptr;
    if (lease && held && kvc_seq_lease(&kept, seq, 0, KVC_ALL, KVC_FOREVER, nullptr, &error) != KVC_OK) return failed("lease");
    if (kept && kvc_seq_release(seq, &error) != KVC_OK) return failed("release");
    if (kept) {  // a lease outlives its sequence: a new match finds all of it
      KVC_INIT(&info);
      if (kvc_match(&seq, &info, host_.scope, ids.data(), ids.size(), &o, nullptr, &error) != KVC_OK) return failed("match");
      if (info.tokens / kTokens < held) return *why = "a match found " + std::to_string(info.tokens) + " tokens of " + std::to_string(held * kTokens) + " leased", false;
    }
    if (held) {
      Rows read;
      const kvc_rows run = read.of(0, kLayers, 0, held * kTokens);
      if (kvc_gather(nullptr, seq, &run, 1, nullptr, &error) != KVC_OK) return failed("gather");
      for (uint32_t c = 0; c < held; c++)
        if (!(r.writers[c] = read.writer_of(c))) return *why = "chunk " + std::to_string(c) + " is not of one writer", false;
    }
    r.leased = kept != nullptr;
    r.release_begin = ++time_;
    if (kvc_seq_release(seq, &error) != KVC_OK) return failed("release");
    if (kvc_lease_release(kept, &error) != KVC_OK) return failed("lease_release");
    return true;
  }
  uint64_t evictions() {
    kvc_metrics metrics;
    KVC_INIT(&metrics);
    EXPECT_EQ(kvc_metrics_read(&metrics, host_.store, &host_.error), KVC_OK);
    return metrics.evicted_chunks;
  }
  void expect_nothing_pinned_and_sums_right(uint64_t room_bytes) {
    kvc_store_info info;
    KVC_INIT(&info);
    EXPECT_EQ(kvc_store_get_info(&info, host_.store, &host_.error), KVC_OK);
    EXPECT_LE(info.memory_pinned, (2u << 20) - room_bytes + 8192) << "only the ballast is held";
    EXPECT_EQ(kvc_store_verify(nullptr, host_.store, nullptr, &host_.error), KVC_OK) << host_.error.message;
  }

 private:
  kvc_test::Host host_{{kvc_test::full_layers(kLayers, kHeads, kDim, kDim)}, KVC_F32, kTokens, 2 << 20};
  std::vector<int32_t> prefixes_[kPrefixes];
  std::atomic<uint64_t> time_{0};
};

/// "register": the times in which each writer's form was held do not meet.
void check_register(const std::vector<Record> &records) {
  struct Span {
    uint64_t begin = UINT64_MAX, end = 0;
  };
  std::map<uint32_t, std::map<uint32_t, Span>> registers;
  for (const Record &r : records)
    for (uint32_t c = 0; c < kChunks; c++)
      if (r.writers[c]) {
        Span &span = registers[World::register_of(r.prefix, c)][r.writers[c]];
        span.begin = std::min(span.begin, r.hold_begin(c));
        span.end = std::max(span.end, r.release_begin);
      }
  for (const auto &[number, writers] : registers) {
    std::vector<std::pair<Span, uint32_t>> spans;
    for (const auto &[writer, span] : writers) spans.push_back({span, writer});
    std::sort(spans.begin(), spans.end(), [](const auto &a, const auto &b) { return a.first.begin < b.first.begin; });
    for (size_t i = 1; i < spans.size(); i++)
      ASSERT_LT(spans[i - 1].first.end, spans[i].first.begin)
          << "chunk " << number << " was held as writer " << spans[i - 1].second << "'s and as writer " << spans[i].second << "'s at once";
  }
}

/// "whole": the writer wrote this chunk, and had begun.
void check_writers(const std::vector<Record> &records) {
  std::map<uint32_t, const Record *> by_writer;
  for (const Record &r : records)
    if (r.own) by_writer[r.own] = &r;
  for (const Record &r : records)
    for (uint32_t c = 0; c < kChunks; c++) {
      if (!r.writers[c]) continue;
      const auto from = by_writer.find(r.writers[c]);
      ASSERT_NE(from, by_writer.end()) << "of a writer who never succeeded";
      ASSERT_EQ(World::register_of(from->second->prefix, c), World::register_of(r.prefix, c)) << "another prefix's";
      ASSERT_GE(c, from->second->found) << "its writer had found it";
      ASSERT_LT(from->second->match_end, r.release_begin) << "from the future";
    }
}

/// "present".
void check_present(const std::vector<Record> &records) {
  std::map<uint32_t, std::vector<const Record *>> holders;
  for (const Record &r : records)
    for (uint32_t c = 0; c < kChunks; c++)
      if (r.writers[c]) holders[World::register_of(r.prefix, c)].push_back(&r);
  uint64_t shown = 0;
  for (const Record &m : records)
    for (uint32_t c = 0; c < kChunks; c++)
      for (const Record *h : holders[World::register_of(m.prefix, c)]) {
        if (h == &m || h->hold_begin(c) >= m.match_begin || m.match_end >= h->release_begin) continue;
        shown++;
        ASSERT_GT(m.found, c) << "a match missed a chunk that was held from before it began until after it ended";
        ASSERT_EQ(m.writers[c], h->writers[c]);
      }
  EXPECT_GT(shown, 0u) << "the threads never met";
}

TEST(History, SharedPrefixesUnderEvictionAreRegistersThatAreWrittenOnceUntilTheyGo) {
  constexpr uint64_t room_bytes = 280 << 10;
  World world(room_bytes);
  std::atomic<uint32_t> writers{0};
  std::vector<std::vector<Record>> records(kThreads);
  std::vector<std::string> whys(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int i = 0; i < kRounds; i++) {
        Record r;
        // Hot ones are met, cold ones evicted.
        r.prefix = random() % 2 ? random() % 2 : random() % kPrefixes;
        const uint32_t writer = random() % 4 ? ++writers : 0;
        if (!world.life(r, writer, random() % 2, random() % 8 == 0, &whys[t])) return;
        records[t].push_back(r);
      }
    });
  for (auto &thread : threads) thread.join();
  std::vector<Record> all;
  for (uint32_t t = 0; t < kThreads; t++) {
    ASSERT_EQ(whys[t], "") << "thread " << t << " in round " << records[t].size();
    all.insert(all.end(), records[t].begin(), records[t].end());
  }
  ASSERT_NO_FATAL_FAILURE(check_writers(all));
  ASSERT_NO_FATAL_FAILURE(check_register(all));
  ASSERT_NO_FATAL_FAILURE(check_present(all));
  EXPECT_GT(world.evictions(), static_cast<uint64_t>(kRounds) / 2) << "too little was evicted to show anything";
  world.expect_nothing_pinned_and_sums_right(room_bytes);
}

TEST(History, OfTwoWritersOnOnePrefixOneWinsEachChunkWholeAndBothReadIt) {
  constexpr uint64_t room_bytes = 1 << 20;
  uint32_t won[2] = {}, split = 0;
  for (int round = 0; round < kRounds / 20; round++) {
    World world(room_bytes);
    std::barrier start(2);
    Record records[2];
    std::string whys[2];
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 2; t++)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        (void)world.life(records[t], t + 1, round % 2, false, &whys[t]);
      });
    for (auto &thread : threads) thread.join();
    Record after;
    ASSERT_EQ(whys[0] + whys[1], "");
    ASSERT_TRUE(world.life(after, 0, false, false, &whys[0])) << whys[0];
    ASSERT_EQ(after.found, kChunks);
    for (uint32_t c = 0; c < kChunks; c++) {
      ASSERT_EQ(records[0].writers[c], after.writers[c]) << "chunk " << c;
      ASSERT_EQ(records[1].writers[c], after.writers[c]) << "chunk " << c;
      won[after.writers[c] - 1]++;
      split += c && after.writers[c] != after.writers[c - 1];
    }
  }
  RecordProperty("won", static_cast<int>(won[0]));
  RecordProperty("split", static_cast<int>(split));
}

}  // namespace
}  // namespace kvc::model
