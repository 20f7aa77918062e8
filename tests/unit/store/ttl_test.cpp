#include <map>
#include <random>

#include "base/handle.h"
#include "limited_host.h"
#include "store/ages.h"

/// Times to live (kvc_scope_options.ttl_ms, kvc_object_options.ttl_ms): what was not used for so long is found by nobody.
namespace {

using namespace kvc_test;

struct TtlTest : testing::Test, LimitedHost {
  ScopeHandle lasting = scope("lasting"), brief = scope("brief", 0, 10000);

};

TEST_F(TtlTest, what_was_not_used_for_its_time_is_missed_by_every_call_and_others_keep_theirs) {
  prompt(brief, 1, 4);
  prompt(lasting, 1, 4);
  ASSERT_EQ(put(brief, "a", 100), KVC_OK) << error.message;
  ASSERT_EQ(put(lasting, "a", 100), KVC_OK) << error.message;
  clock.advance_ms(9990);
  EXPECT_EQ(found(brief, 1), 4u);
  clock.advance_ms(20);
  EXPECT_EQ(found(brief, 1), 0u);
  EXPECT_FALSE(exists(brief, "a"));
  EXPECT_EQ(get(brief, "a"), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(info(brief).bytes_host, 0u);
  EXPECT_EQ(found(lasting, 1), 4u);
  EXPECT_EQ(get(lasting, "a"), KVC_OK);
  EXPECT_EQ(put(brief, "a", 200), KVC_OK) << "other bytes: " << error.message;
}

TEST_F(TtlTest, objects_with_times_of_their_own_that_are_gone_are_not_remembered_until_their_time) {
  const auto put_and_delete = [&](int count) {
    for (int i = 0; i < count; i++) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(put_ttl(lasting, key, 10, 86400000), KVC_OK) << error.message;
      kvc_object o{};
      o.key = key.data(), o.key_size = key.size();
      ASSERT_EQ(kvc_object_delete(nullptr, lasting, &o, 1, nullptr, &error), KVC_OK) << error.message;
    }
  };
  ASSERT_EQ(put_ttl(lasting, "kept", 10, 1000), KVC_OK) << error.message;
  put_and_delete(1000);
  const uint64_t bytes = internals(store).metadata().used_bytes();
  put_and_delete(5000);
  EXPECT_EQ(internals(store).metadata().used_bytes(), bytes);
  EXPECT_TRUE(exists(lasting, "kept"));
  clock.advance_ms(1001);
  EXPECT_FALSE(exists(lasting, "kept"));
}

TEST_F(TtlTest, every_use_begins_the_time_anew) {
  ASSERT_EQ(put(brief, "got", 100), KVC_OK);
  ASSERT_EQ(put(brief, "seen", 100), KVC_OK);
  ASSERT_EQ(put(brief, "put again", 100), KVC_OK);
  ASSERT_EQ(put(brief, "left", 100), KVC_OK);
  prompt(brief, 1, 2);
  prompt(brief, 2, 2);
  clock.advance_ms(6000);
  EXPECT_EQ(get(brief, "got"), KVC_OK);
  EXPECT_TRUE(exists(brief, "seen"));
  ASSERT_EQ(put(brief, "put again", 100), KVC_OK);
  prompt(brief, 1, 2);
  clock.advance_ms(6000);
  EXPECT_EQ(get(brief, "got"), KVC_OK);
  EXPECT_TRUE(exists(brief, "seen"));
  EXPECT_TRUE(exists(brief, "put again"));
  EXPECT_FALSE(exists(brief, "left"));
  EXPECT_EQ(found(brief, 1), 2u);
  EXPECT_EQ(found(brief, 2), 0u);
}

TEST_F(TtlTest, a_use_of_a_long_prompt_keeps_all_of_it_and_a_look_keeps_nothing) {
  prompt(brief, 1, 6);
  clock.advance_ms(6000);
  EXPECT_EQ(found(brief, 1), 6u);
  prompt(brief, 1, 3);  // its front
  clock.advance_ms(6000);
  EXPECT_EQ(found(brief, 1), 3u);
}

TEST_F(TtlTest, what_is_held_stays_however_old_it_is) {
  LeaseHandle lease, object;
  ASSERT_EQ(kvc_seq_lease(lease.out(), prompt(brief, 1, 3), 0, KVC_ALL, KVC_FOREVER, nullptr, &error), KVC_OK) << error.message;
  ASSERT_EQ(put(brief, "held", 100), KVC_OK);
  ASSERT_TRUE(exists(brief, "held", &object));
  ASSERT_EQ(kvc_lease_renew(object, KVC_FOREVER, &error), KVC_OK);
  clock.advance_ms(60000);
  EXPECT_EQ(found(brief, 1), 3u);
  EXPECT_EQ(get(brief, "held"), KVC_OK);
  lease.reset();
  EXPECT_EQ(found(brief, 1), 0u) << "a lease is no use";
  object.reset();
  EXPECT_EQ(get(brief, "held"), KVC_OK) << "but a get is";
}

TEST_F(TtlTest, a_sequence_that_lapsed_counts_from_its_last_use) {
  SeqHandle seq = prompt(brief, 1, 2);
  clock.advance_ms(5000);  // its lease of a second is over
  EXPECT_EQ(found(brief, 1), 2u);
  clock.advance_ms(5100);
  EXPECT_EQ(found(brief, 1), 0u);
  EXPECT_EQ(gather(seq, 64), KVC_ERR_GONE);
}

TEST_F(TtlTest, an_object_has_a_time_of_its_own_shorter_or_longer_than_the_scopes) {
  ASSERT_EQ(put_ttl(brief, "short", 100, 1000), KVC_OK) << error.message;
  ASSERT_EQ(put_ttl(brief, "long", 100, 50000), KVC_OK) << error.message;
  ASSERT_EQ(put_ttl(brief, "forever", 100, KVC_FOREVER), KVC_OK) << error.message;
  ASSERT_EQ(put(brief, "scopes", 100), KVC_OK) << error.message;
  ASSERT_EQ(put_ttl(lasting, "timed", 100, 1000), KVC_OK) << error.message;
  ASSERT_EQ(put(lasting, "untimed", 100), KVC_OK) << error.message;
  clock.advance_ms(600);
  EXPECT_EQ(get(lasting, "timed"), KVC_OK);
  clock.advance_ms(600);
  EXPECT_FALSE(exists(brief, "short"));
  EXPECT_EQ(get(lasting, "timed"), KVC_OK) << "used since";
  clock.advance_ms(1010);
  EXPECT_EQ(get(lasting, "timed"), KVC_ERR_NOT_FOUND);
  clock.advance_ms(10000);
  EXPECT_FALSE(exists(brief, "scopes"));
  clock.advance_ms(30000);
  EXPECT_EQ(get(brief, "long"), KVC_OK);
  clock.advance_ms(50010);
  EXPECT_EQ(get(brief, "long"), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(get(brief, "forever"), KVC_OK);
  EXPECT_EQ(get(lasting, "untimed"), KVC_OK);
}

TEST_F(TtlTest, a_batch_and_a_group_take_the_time_of_their_options) {
  auto options = sized<kvc_object_options>();
  options.ttl_ms = 1000;
  for (const uint32_t flags : {0u, static_cast<uint32_t>(KVC_OBJECT_GROUP)}) {
    options.flags = flags;
    ASSERT_EQ(put(lasting, flags ? "group" : "batch", 100, &options), KVC_OK) << error.message;
  }
  EXPECT_EQ(info(lasting).object_count, 2u);
  clock.advance_ms(1010);
  kvc_object_entry entries[4];
  size_t count = 9;
  ASSERT_EQ(kvc_object_list(entries, 4, &count, lasting, nullptr, 0, nullptr, &error), KVC_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(info(lasting).object_count, 0u);
  EXPECT_EQ(internals(store).expire(), false);
}

TEST_F(TtlTest, background_work_drops_it_a_few_at_a_time) {
  for (int32_t p = 0; p < 50; p++) prompt(brief, p, 4);
  for (int i = 0; i < 30; i++) ASSERT_EQ(put_ttl(lasting, "k" + std::to_string(i), 100, 10000), KVC_OK);
  prompt(lasting, 1, 4);
  EXPECT_FALSE(internals(store).expire());
  EXPECT_EQ(info().chunk_count, 204u);
  clock.advance_ms(10010);
  int rounds = 1;
  while (internals(store).expire()) rounds++;
  EXPECT_GT(rounds, 2);
  EXPECT_EQ(info().chunk_count, 4u);
  EXPECT_EQ(info().object_count, 0u);
}

TEST_F(TtlTest, who_needs_room_takes_what_expired_before_anything_that_did_not) {
  prompt(lasting, 1, 4);  // the least recently used of all
  clock.advance_ms(1);
  for (int32_t p = 0; p < 60; p++) prompt(brief, p, 5);
  clock.advance_ms(10010);
  for (int i = 0; i < 10; i++) ASSERT_EQ(put(lasting, "filler" + std::to_string(i), 100000), KVC_OK) << error.message;
  EXPECT_EQ(found(lasting, 1), 4u);
  EXPECT_EQ(metrics().evicted_chunks, 0u);
}

TEST_F(TtlTest, creating_the_scope_again_changes_its_time_and_what_is_there_begins_anew) {
  prompt(lasting, 1, 2);
  clock.advance_ms(100000);
  const ScopeHandle shorter = scope("lasting", 0, 1000);
  EXPECT_EQ(found(lasting, 1), 2u);
  clock.advance_ms(1010);
  EXPECT_EQ(found(lasting, 1), 0u);
  prompt(brief, 1, 2);
  const ScopeHandle never = scope("brief");
  clock.advance_ms(100000);
  EXPECT_EQ(found(brief, 1), 2u);
}

TEST_F(TtlTest, a_scope_that_nobody_uses_is_forgotten_with_its_last_chunk) {
  ScopeHandle gone = scope("gone", 0, 1000);
  prompt(gone, 1, 3);
  prompt(brief, 1, 1);
  gone.reset();
  clock.advance_ms(1010);
  while (internals(store).expire()) continue;
  EXPECT_EQ(info().chunk_count, 1u);
  gone = scope("gone");
  EXPECT_EQ(info(gone).tokens_written, 0u) << "made anew";
}

TEST_F(TtlTest, random_use_misses_all_that_is_too_old_and_nothing_much_younger) {
  std::mt19937_64 random(7);
  std::map<std::string, uint64_t> used;
  uint64_t hits = 0, misses = 0;
  for (int i = 0; i < 6000; i++) {
    clock.advance_ms(random() % 40 == 0 ? 3000 : random() % 100);
    const std::string key = "k" + std::to_string(random() % 100);
    const uint64_t now = clock.now_ns() / 1000000, age = used.contains(key) ? now - used[key] : UINT64_MAX;
    const bool there = get(brief, key) == KVC_OK;
    if (age < 10000) {
      ASSERT_TRUE(there) << i << ": dropped after " << age;
      hits++;
    }
    if (age > 11500) {
      ASSERT_FALSE(there) << i << ": still there after " << age;
      misses += age != UINT64_MAX;
    }
    if (!there) {
      ASSERT_EQ(put(brief, key, 50), KVC_OK) << error.message;
    }
    used[key] = now;
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(misses, 100u);
}

TEST(Ages, what_is_said_to_be_old_is_and_how_late_it_is_said_is_a_share_of_its_age) {
  kvc::store::Ages ages;
  std::mt19937_64 random(3);
  std::vector<uint64_t> drawn{0};  // when each tick was
  uint64_t now = 1000000000;
  for (int i = 0; i < 20000; i++) {
    now += random() % 100 ? random() % 30000000 : random() % 60000000000;
    for (uint64_t n = random() % 3; n--;) drawn.push_back(now);
    const uint64_t late = random() % drawn.size();
    if (random() % 50 == 0) ages.note_late(late, drawn[late], now);
    ages.note(drawn.size() - 1, now);
  }
  for (uint64_t age = 1000000; age < now; age = age * 3 / 2) {
    const uint64_t tick = ages.tick_by(now - age);
    ASSERT_LE(drawn[tick], now - age);
    const uint64_t blur = age / 5 + 2 * kvc::store::Ages::grain_ns;
    if (blur + age >= now) break;
    const auto first_after = std::upper_bound(drawn.begin() + 1, drawn.end(), now - age - blur);
    ASSERT_GE(tick, static_cast<uint64_t>(first_after - drawn.begin() - 1)) << "age " << age;
    ASSERT_GE(ages.drawn_by(tick), drawn[tick]);
  }
  EXPECT_EQ(ages.drawn_by(drawn.size()), UINT64_MAX);
  EXPECT_EQ(kvc::store::Ages().tick_by(UINT64_MAX), 0u);
}

}  // namespace
