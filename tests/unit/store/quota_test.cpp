#include <map>
#include <random>
#include <thread>

#include "limited_host.h"
#ifdef KVC_FAULTS
#include "base/fault.h"
#endif

/// Quotas (kvc_scope_options.bytes_max): a scope makes room among its own, and nobody else's data goes for it.
namespace {

using namespace kvc_test;

struct QuotaTest : testing::Test, LimitedHost {
  ScopeHandle other = scope("other");
  uint64_t chunk_bytes = 0, object_bytes = 0;

  void SetUp() override {
    {
      const ScopeHandle probe = scope("probe");
      prompt(probe, 1, 1);
      chunk_bytes = info(probe).bytes_host;
      EXPECT_EQ(kvc_scope_clear(nullptr, probe, nullptr, nullptr), KVC_OK);
      EXPECT_EQ(put(probe, "x", 1000), KVC_OK);
      object_bytes = info(probe).bytes_host;
      EXPECT_EQ(kvc_scope_clear(nullptr, probe, nullptr, nullptr), KVC_OK);
    }
    for (int32_t p = 0; p < 4; p++) prompt(other, p, 4);
    EXPECT_EQ(put(other, "theirs", 1000), KVC_OK) << error.message;
  }
  void expect_others_untouched() {
    for (int32_t p = 0; p < 4; p++) EXPECT_EQ(found(other, p), 4u) << p;
    EXPECT_TRUE(exists(other, "theirs"));
  }
};

TEST_F(QuotaTest, a_scope_over_its_quota_evicts_its_own_least_recently_used_and_no_one_elses) {
  const ScopeHandle mine = scope("mine", 8 * chunk_bytes);
  EXPECT_EQ(info(mine).bytes_max, 8 * chunk_bytes);
  prompt(mine, 1, 4);
  prompt(mine, 2, 4);
  prompt(mine, 1, 4);  // used again
  prompt(mine, 3, 3);
  EXPECT_EQ(found(mine, 1), 4u);
  EXPECT_EQ(found(mine, 2), 1u) << "its leaves go first";
  EXPECT_EQ(found(mine, 3), 3u);
  EXPECT_EQ(info(mine).bytes_host, 8 * chunk_bytes);
  EXPECT_EQ(metrics().evicted_chunks, 3u);
  expect_others_untouched();
}

TEST_F(QuotaTest, what_is_held_does_not_go_for_the_quota_and_the_refusal_names_quota_and_use) {
  const ScopeHandle mine = scope("mine", 5 * chunk_bytes);
  SeqHandle held = prompt(mine, 1, 4);
  kvc_status status = KVC_OK;
  SeqHandle more = prompt(mine, 2, 2, &status);
  EXPECT_EQ(status, KVC_ERR_FULL);
  EXPECT_NE(error.text().find("the scope holds " + std::to_string(5 * chunk_bytes) + " of its quota of " + std::to_string(5 * chunk_bytes)), std::string::npos) << error.message;
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_LATER));
  EXPECT_EQ(info(mine).bytes_host, 4 * chunk_bytes);
  EXPECT_EQ(gather(held, 4 * chunk_tokens), KVC_OK) << error.message;
  held.reset();
  more = prompt(mine, 2, 2, &status);
  EXPECT_EQ(status, KVC_OK) << error.message;
  EXPECT_EQ(info(mine).bytes_host, 5 * chunk_bytes);
  expect_others_untouched();
}

TEST_F(QuotaTest, what_could_never_fit_evicts_nothing_and_is_not_worth_another_try) {
  const ScopeHandle mine = scope("mine", 4 * chunk_bytes);
  prompt(mine, 1, 4);
  kvc_status status = KVC_OK;
  prompt(mine, 2, 5, &status);
  EXPECT_EQ(status, KVC_ERR_FULL);
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << error.message;
  EXPECT_NE(error.text().find("bytes_max is " + std::to_string(4 * chunk_bytes)), std::string::npos) << error.message;
  EXPECT_EQ(put(mine, "big", 5 * chunk_bytes), KVC_ERR_FULL);
  EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << error.message;
  EXPECT_EQ(found(mine, 1), 4u);
  expect_others_untouched();
}

TEST_F(QuotaTest, open_rows_count_against_the_quota_until_they_are_given_back) {
  const ScopeHandle mine = scope("mine", 2 * chunk_bytes);
  SeqHandle one, two, three;
  for (SeqHandle *seq : {&one, &two, &three}) ASSERT_EQ(kvc_seq_create(seq->out(), mine, nullptr, &error), KVC_OK);
  ASSERT_EQ(append(one, ids(64, 1), 0, 10), KVC_OK) << error.message;
  ASSERT_EQ(append(two, ids(64, 2), 0, 10), KVC_OK) << error.message;
  EXPECT_EQ(append(three, ids(64, 3), 0, 10), KVC_ERR_FULL);
  EXPECT_EQ(put(mine, "x", 100), KVC_ERR_FULL);
  ASSERT_EQ(append(one, ids(64, 1), 10, 64), KVC_OK) << "sealing takes nothing more: " << error.message;
  one.reset();
  ASSERT_EQ(append(three, ids(64, 3), 0, 10), KVC_OK) << error.message;
  EXPECT_EQ(found(mine, 1), 0u) << "went for it";
  two.reset();
  three.reset();
  prompt(mine, 4, 2);
  EXPECT_EQ(found(mine, 4), 2u);
}

TEST_F(QuotaTest, objects_and_chunks_share_the_quota_in_order_of_use) {
  const ScopeHandle mine = scope("mine", 4 * object_bytes);
  for (const char *key : {"a", "b", "c", "d"}) ASSERT_EQ(put(mine, key, 1000), KVC_OK) << error.message;
  EXPECT_EQ(get(mine, "a"), KVC_OK);
  ASSERT_EQ(put(mine, "e", 1000), KVC_OK) << error.message;
  EXPECT_TRUE(exists(mine, "a"));
  EXPECT_FALSE(exists(mine, "b"));
  std::vector<kvc_object> batch(8);
  std::vector<uint8_t> value(1000, 7);
  const kvc_bytes part{value.data(), value.size()};
  std::vector<std::string> keys;
  for (size_t i = 0; i < batch.size(); i++) keys.push_back("batch" + std::to_string(i));
  for (size_t i = 0; i < batch.size(); i++) batch[i].key = keys[i].data(), batch[i].key_size = keys[i].size(), batch[i].parts = &part, batch[i].part_count = 1;
  EXPECT_EQ(kvc_object_put(nullptr, mine, batch.data(), batch.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
  EXPECT_EQ(info(mine).object_count, 4u);
  auto options = sized<kvc_object_options>();
  options.flags = KVC_OBJECT_GROUP;
  value[0] = 8;
  for (size_t i = 0; i < batch.size(); i++) keys[i][0] = 'g';
  EXPECT_EQ(kvc_object_put(nullptr, mine, batch.data(), batch.size(), &options, nullptr, &error), KVC_ERR_FULL) << "all or none";
  EXPECT_EQ(kvc_object_put(nullptr, mine, batch.data(), 4, &options, nullptr, &error), KVC_OK) << error.message;
  EXPECT_EQ(info(mine).object_count, 4u);
  EXPECT_EQ(info(mine).bytes_host, 4 * object_bytes);
  expect_others_untouched();
}

TEST_F(QuotaTest, creating_the_scope_again_changes_its_quota_for_all_and_too_much_goes_at_once) {
  const ScopeHandle mine = scope("mine");
  for (int32_t p = 0; p < 5; p++) prompt(mine, p, 2);
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), prompt(mine, 4, 2), 0, KVC_ALL, KVC_FOREVER, nullptr, &error), KVC_OK) << error.message;
  prompt(mine, 0, 2);
  const ScopeHandle again = scope("mine", 4 * chunk_bytes);
  EXPECT_EQ(info(mine).bytes_max, 4 * chunk_bytes);
  EXPECT_EQ(info(mine).bytes_host, 4 * chunk_bytes);
  EXPECT_EQ(found(mine, 0), 2u);
  EXPECT_EQ(found(mine, 4), 2u);
  const ScopeHandle less = scope("mine", chunk_bytes);
  EXPECT_EQ(info(mine).bytes_host, 2 * chunk_bytes) << "what is leased stays";
  EXPECT_EQ(put(mine, "x", 100), KVC_ERR_FULL);
  lease.reset();
  EXPECT_EQ(put(mine, "x", 100), KVC_OK) << error.message;
  EXPECT_LE(info(mine).bytes_host, chunk_bytes);
  const ScopeHandle none = scope("mine");
  EXPECT_EQ(info(mine).bytes_max, 0u);
  prompt(mine, 7, 8);
  EXPECT_EQ(found(mine, 7), 8u);
  expect_others_untouched();
}

TEST_F(QuotaTest, within_their_quotas_scopes_share_the_store_by_plain_lru) {
  const ScopeHandle mine = scope("mine", 4u << 20), late = scope("late", 4u << 20);
  prompt(mine, 1, 4);
  for (int i = 0; i < 1000 && info(other).chunk_count == 16; i++) ASSERT_EQ(put(late, "filler" + std::to_string(i), 20000), KVC_OK) << error.message;
  EXPECT_LT(found(other, 0), 4u) << "the oldest of all";
  EXPECT_EQ(found(other, 3), 4u);
  EXPECT_EQ(found(mine, 1), 4u);
}

TEST_F(QuotaTest, a_scope_that_is_forgotten_takes_its_quota_with_it) {
  for (int round = 0; round < 3; round++) {
    ScopeHandle mine = scope("mine", chunk_bytes);
    prompt(mine, 1, 1);
    ASSERT_EQ(kvc_scope_clear(nullptr, mine, nullptr, &error), KVC_OK);
  }
  const ScopeHandle mine = scope("mine");
  prompt(mine, 1, 3);
  EXPECT_EQ(found(mine, 1), 3u);
}

TEST_F(QuotaTest, random_use_of_quotas_never_exceeds_them_and_drops_only_the_least_recently_used) {
  std::mt19937_64 random(128);
  struct Scoped {
    ScopeHandle handle;
    uint64_t max;
    std::vector<std::string> order;  // least recently used first
  };
  std::vector<Scoped> scopes;
  for (const uint64_t limit : {3, 5, 8}) scopes.push_back({scope(("tenant" + std::to_string(limit)).c_str(), limit * object_bytes), limit, {}});
  for (int i = 0; i < 4000; i++) {
    Scoped &s = scopes[random() % scopes.size()];
    const std::string key = "k" + std::to_string(random() % 12);
    const auto at = std::find(s.order.begin(), s.order.end(), key);
    const bool there = at != s.order.end();
    if (there) s.order.erase(at);
    if (random() % 3 == 0) {
      ASSERT_EQ(exists(s.handle, key), there) << i;
      if (!there) continue;
    } else if (random() % 2 == 0) {
      ASSERT_EQ(get(s.handle, key), there ? KVC_OK : KVC_ERR_NOT_FOUND) << i;
      if (!there) continue;
    } else {
      ASSERT_EQ(put(s.handle, key, 1000), KVC_OK) << error.message;
    }
    s.order.push_back(key);
    if (s.order.size() > s.max) s.order.erase(s.order.begin());
    ASSERT_EQ(info(s.handle).object_count, s.order.size()) << i;
  }
  for (const Scoped &s : scopes)
    for (const std::string &key : s.order) EXPECT_TRUE(exists(s.handle, key)) << key;
  expect_others_untouched();
}

TEST_F(QuotaTest, quotas_that_change_while_others_store_end_with_the_last_one) {
  ScopeHandle mine = scope("mine", 8 * object_bytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&, t] {
      std::vector<uint8_t> value(1000, 1);
      const kvc_bytes part{value.data(), value.size()};
      for (int i = 0; i < 400; i++) {
        const std::string key = std::to_string(t) + "." + std::to_string(i % 30);
        kvc_object o{};
        o.key = key.data(), o.key_size = key.size(), o.parts = &part, o.part_count = 1;
        const kvc_status status = kvc_object_put(nullptr, mine, &o, 1, nullptr, nullptr, nullptr);
        EXPECT_TRUE(status == KVC_OK || status == KVC_ERR_FULL) << status;
      }
    });
  for (int i = 0; i < 200; i++) scope("mine", i % 3 ? static_cast<uint64_t>(i % 3 * 4) * object_bytes : 0);
  for (std::thread &thread : threads) thread.join();
  const ScopeHandle last = scope("mine", 2 * object_bytes);
  EXPECT_LE(info(mine).bytes_host, 2 * object_bytes);
  EXPECT_EQ(put(mine, "x", 1000), KVC_OK) << error.message;
  EXPECT_EQ(info(mine).object_count, 2u);
}

#ifdef KVC_FAULTS
TEST_F(QuotaTest, a_quota_that_memory_was_refused_for_is_not_set) {
  const ScopeHandle mine = scope("mine");
  prompt(mine, 1, 2);
  ASSERT_TRUE(kvc::base::fault_arm("seq.index.limit", 1, 1));
  kvc_scope *out = nullptr;
  EXPECT_EQ(create(&out, "mine", chunk_bytes), KVC_ERR_NO_MEMORY);
  kvc::base::fault_disarm_all();
  EXPECT_EQ(info(mine).bytes_max, 0u);
  EXPECT_EQ(found(mine, 1), 2u);
  const ScopeHandle again = scope("mine", chunk_bytes);
  EXPECT_EQ(found(mine, 1), 1u);
}
#endif

}  // namespace
