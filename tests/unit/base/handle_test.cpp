#include "base/handle.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace kvc::base {
namespace {

constexpr uint32_t kStore = 5;

class Handles : public testing::Test {
 protected:
  HandleTable table_{HandleKind::seq, kStore, 1000, 1, std::pmr::new_delete_resource()};
  int objects_[8] = {};
  void *object_ = nullptr;
};

TEST(Token, EveryFieldSurvivesPackingAtItsEnds) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; i++) {
    Token t;
    t.kind = static_cast<HandleKind>(random() % 8);
    t.process = i % 3 ? static_cast<uint32_t>(random() % 64) : 63;
    t.store = i % 5 ? static_cast<uint32_t>(random() % store_slot_max) : store_slot_max - 1;
    t.index = i % 7 ? static_cast<uint32_t>(random() % HandleTable::kIndexMax) : HandleTable::kIndexMax - 1;
    t.generation = i % 11 ? static_cast<uint32_t>(random() & HandleTable::kGenerationMask) : HandleTable::kGenerationMask;
    const Token u = token_unpack(token_pack(t));
    ASSERT_EQ(u.kind, t.kind);
    ASSERT_EQ(u.process, t.process);
    ASSERT_EQ(u.store, t.store);
    ASSERT_EQ(u.index, t.index);
    ASSERT_EQ(u.generation, t.generation);
  }
}

TEST_F(Handles, AHandleGivesItsObjectAndSaysWhereItIsFrom) {
  const Token token = token_unpack(table_.add(&objects_[3]));
  EXPECT_EQ(token.kind, HandleKind::seq);
  EXPECT_EQ(token.store, kStore);
  EXPECT_EQ(token.process, process_tag());
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  EXPECT_EQ(object_, &objects_[3]);
  EXPECT_FALSE(table_.leave_shared(token));
  EXPECT_EQ(table_.live_count(), 1u);
}

TEST_F(Handles, AReleasedHandleIsStaleForEveryCallAlsoWhenItsEntryIsUsedAgain) {
  const Token token = token_unpack(table_.add(&objects_[0]));
  ASSERT_EQ(table_.enter_exclusive(&object_, token), KVC_OK);
  table_.remove(token);
  for (int round = 0; round < 2; round++) {
    EXPECT_EQ(table_.enter_shared(&object_, token), KVC_ERR_STALE);
    EXPECT_EQ(table_.enter_exclusive(&object_, token), KVC_ERR_STALE);
    EXPECT_EQ(table_.retire(&object_, token), KVC_ERR_STALE);
    Token next = token_unpack(table_.add(&objects_[1]));
    for (int others = 0; next.index != token.index && others < 3000; others++) {  // an entry waits behind others until it is used again
      ASSERT_EQ(table_.retire(&object_, next), KVC_OK);
      next = token_unpack(table_.add(&objects_[1]));
    }
    ASSERT_EQ(next.index, token.index) << "the entry is used again, or this test shows nothing";
    EXPECT_NE(next.generation, token.generation);
    ASSERT_EQ(table_.retire(&object_, next), KVC_OK);
  }
}

TEST_F(Handles, AStaleHandleStaysStaleForFourMillionOthersAndMore) {
  int object = 0;
  void *out;
  const uint64_t first = table_.add(&object);
  ASSERT_EQ(table_.enter_exclusive(&out, token_unpack(first)), KVC_OK);
  table_.remove(token_unpack(first));
  for (uint32_t i = 0; i < HandleTable::kGenerationMask + 4096; i++) {
    const uint64_t next = table_.add(&object);
    ASSERT_NE(next, first) << i;
    ASSERT_EQ(table_.enter_exclusive(&out, token_unpack(next)), KVC_OK);
    table_.remove(token_unpack(next));
  }
  EXPECT_EQ(table_.enter_shared(&out, token_unpack(first)), KVC_ERR_STALE);
}

TEST_F(Handles, AHandleThatTheTableNeverGaveIsStaleWhateverItsBits) {
  table_.add(&objects_[0]);
  Token forged;
  forged.kind = HandleKind::seq;
  forged.generation = 1;
  for (const uint32_t index : {1u, 255u, 256u, 999u, HandleTable::kIndexMax - 1}) {
    forged.index = index;
    EXPECT_EQ(table_.enter_shared(&object_, forged), KVC_ERR_STALE) << index;
    EXPECT_EQ(table_.enter_exclusive(&object_, forged), KVC_ERR_STALE) << index;
    EXPECT_EQ(table_.retire(&object_, forged), KVC_ERR_STALE) << index;
    EXPECT_FALSE(table_.lapsed(forged)) << index;
  }
  forged.index = 0;
  forged.generation = 0;
  EXPECT_EQ(table_.enter_shared(&object_, forged), KVC_ERR_STALE);
}

TEST_F(Handles, ReadersShareAWriterIsAlone) {
  const Token token = token_unpack(table_.add(&objects_[0]));
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  EXPECT_EQ(table_.enter_exclusive(&object_, token), KVC_ERR_MISUSE);
  EXPECT_FALSE(table_.leave_shared(token));
  EXPECT_EQ(table_.enter_exclusive(&object_, token), KVC_ERR_MISUSE);
  EXPECT_FALSE(table_.leave_shared(token));
  ASSERT_EQ(table_.enter_exclusive(&object_, token), KVC_OK);
  EXPECT_EQ(table_.enter_shared(&object_, token), KVC_ERR_MISUSE);
  EXPECT_EQ(table_.enter_exclusive(&object_, token), KVC_ERR_MISUSE);
  table_.leave_exclusive(token);
  EXPECT_EQ(table_.enter_shared(&object_, token), KVC_OK);
}

// B53: a second unpin took away another holder's.
TEST_F(Handles, B53ASecondReleaseFailsAndTakesNothingFromOthers) {
  const Token first = token_unpack(table_.add(&objects_[0])), second = token_unpack(table_.add(&objects_[1]));
  ASSERT_EQ(table_.retire(&object_, first), KVC_OK);
  EXPECT_EQ(object_, &objects_[0]);
  EXPECT_EQ(table_.retire(&object_, first), KVC_ERR_STALE);
  EXPECT_EQ(object_, nullptr);
  EXPECT_EQ(table_.live_count(), 1u);
  EXPECT_EQ(table_.enter_shared(&object_, second), KVC_OK);
}

TEST_F(Handles, RetiredWhileInUseItIsStaleForNewcomersAndItsLastUserEndsIt) {
  const Token token = token_unpack(table_.add(&objects_[0]));
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  ASSERT_EQ(table_.retire(&object_, token), KVC_OK);
  EXPECT_EQ(object_, nullptr) << "its users are inside";
  EXPECT_EQ(table_.enter_shared(&object_, token), KVC_ERR_STALE);
  EXPECT_EQ(table_.retire(&object_, token), KVC_ERR_STALE);
  EXPECT_FALSE(table_.leave_shared(token));
  EXPECT_EQ(table_.live_count(), 1u);
  EXPECT_TRUE(table_.leave_shared(token));
  EXPECT_EQ(table_.live_count(), 0u);
}

TEST_F(Handles, OnlyAnIdleHandleLapsesAndOnlyOnce) {
  const Token token = token_unpack(table_.add(&objects_[0]));
  ASSERT_EQ(table_.enter_shared(&object_, token), KVC_OK);
  EXPECT_FALSE(table_.mark_lapsed(token.index));
  EXPECT_TRUE(table_.in_use(token.index));
  table_.leave_shared(token);
  EXPECT_TRUE(table_.mark_lapsed(token.index));
  EXPECT_FALSE(table_.in_use(token.index));
  EXPECT_FALSE(table_.mark_lapsed(token.index));
  EXPECT_TRUE(table_.lapsed(token));
  ASSERT_EQ(table_.enter_exclusive(&object_, token), KVC_OK) << "a lapsed handle stays valid";
  EXPECT_TRUE(table_.lapsed(token));
  table_.clear_lapsed(token.index);
  EXPECT_FALSE(table_.lapsed(token));
  table_.remove(token);
  EXPECT_FALSE(table_.mark_lapsed(token.index)) << "gone";
}

TEST_F(Handles, AFullTableGivesNoHandleUntilOneIsReleased) {
  std::vector<Token> tokens;
  for (int i = 0; i < 1000; i++) tokens.push_back(token_unpack(table_.add(&objects_[0])));
  EXPECT_EQ(table_.add(&objects_[0]), 0u);
  EXPECT_EQ(table_.live_count(), 1000u);
  ASSERT_EQ(table_.retire(&object_, tokens[500]), KVC_OK);
  EXPECT_NE(table_.add(&objects_[0]), 0u);
  EXPECT_EQ(table_.add(&objects_[0]), 0u);
}

TEST_F(Handles, EachSeesExactlyTheLiveOnes) {
  std::map<uint32_t, void *> live;
  std::vector<Token> tokens;
  for (int i = 0; i < 600; i++) {
    tokens.push_back(token_unpack(table_.add(&objects_[i % 8])));
    live[tokens.back().index] = &objects_[i % 8];
  }
  for (int i = 0; i < 600; i += 3) {
    ASSERT_EQ(table_.retire(&object_, tokens[i]), KVC_OK);
    live.erase(tokens[i].index);
  }
  std::map<uint32_t, void *> seen;
  table_.each([&](uint32_t index, void *object) { seen[index] = object; });
  EXPECT_EQ(seen, live);
}

class Stores : public testing::Test {
 protected:
  kvc_status find(const Token &token, HandleKind kind) { return store_of(&found_, token, kind, error_); }
  Token store_token(uint32_t slot, uint32_t generation) {
    Token t;
    t.kind = HandleKind::store, t.process = process_tag(), t.store = slot, t.generation = generation;
    return t;
  }
  Error error_;
  void *found_ = nullptr;
  int stores_[2] = {};
};

TEST_F(Stores, HandlesOfAClosedStoreStayStaleWhenItsSlotIsOpenedAgain) {
  uint32_t slot, generation;
  ASSERT_EQ(store_slot_take(&slot, &generation, error_), KVC_OK);
  const Token store = store_token(slot, generation);
  EXPECT_EQ(find(store, HandleKind::store), KVC_ERR_STALE) << "taken, not published";
  store_slot_publish(slot, &stores_[0], generation);
  ASSERT_EQ(find(store, HandleKind::store), KVC_OK);
  EXPECT_EQ(found_, &stores_[0]);
  Token seq;
  std::set<uint64_t> given;
  uint32_t next;
  {
    HandleTable table(HandleKind::seq, slot, 10, generation, std::pmr::new_delete_resource());
    for (int i = 0; i < 5; i++) given.insert(table.add(&stores_[0]));
    seq = token_unpack(*given.begin());
    ASSERT_EQ(find(seq, HandleKind::seq), KVC_OK);
    next = table.next_generation();
  }
  store_slot_give(slot, next);
  EXPECT_EQ(find(store, HandleKind::store), KVC_ERR_STALE);
  EXPECT_EQ(find(seq, HandleKind::seq), KVC_ERR_STALE);

  uint32_t slot_again, generation_again;
  ASSERT_EQ(store_slot_take(&slot_again, &generation_again, error_), KVC_OK);
  ASSERT_EQ(slot_again, slot);
  store_slot_publish(slot, &stores_[1], generation_again);
  EXPECT_EQ(find(store, HandleKind::store), KVC_ERR_STALE);
  HandleTable table(HandleKind::seq, slot, 10, generation_again, std::pmr::new_delete_resource());
  for (int i = 0; i < 10; i++) EXPECT_FALSE(given.contains(table.add(&stores_[1]))) << "a token of the first store came again";
  for (const uint64_t old : given) EXPECT_EQ(table.enter_shared(&found_, token_unpack(old)), KVC_ERR_STALE);
  store_slot_give(slot, table.next_generation());
}

TEST_F(Stores, WhatIsNoHandleOfTheKindIsMisuseAndNamesTheKind) {
  uint32_t slot, generation;
  ASSERT_EQ(store_slot_take(&slot, &generation, error_), KVC_OK);
  store_slot_publish(slot, &stores_[0], generation);
  EXPECT_EQ(find(Token{}, HandleKind::seq), KVC_ERR_MISUSE);
  EXPECT_NE(std::string_view(error_.message).find("NULL where a kvc_seq"), std::string_view::npos) << error_.message;
  EXPECT_EQ(find(store_token(slot, generation), HandleKind::scope), KVC_ERR_MISUSE);
  EXPECT_EQ(find(token_unpack(reinterpret_cast<uint64_t>(this)), HandleKind::store), KVC_ERR_MISUSE) << "an address";
  EXPECT_EQ(find(token_unpack(UINT64_MAX), HandleKind::lease), KVC_ERR_MISUSE);
  store_slot_give(slot, generation + 1);
}

TEST_F(Stores, InAForkedChildHandlesOfTheParentAreForkedAndNewStoresWork) {
  uint32_t slot, generation;
  ASSERT_EQ(store_slot_take(&slot, &generation, error_), KVC_OK);
  store_slot_publish(slot, &stores_[0], generation);
  const Token store = store_token(slot, generation);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int wrong = find(store, HandleKind::store) != KVC_ERR_FORKED;
    uint32_t own, own_generation;
    wrong += 2 * (store_slot_take(&own, &own_generation, error_) != KVC_OK);
    store_slot_publish(own, &stores_[1], own_generation);
    wrong += 4 * (find(store_token(own, own_generation), HandleKind::store) != KVC_OK || found_ != &stores_[1]);
    wrong += 8 * (find(store, HandleKind::store) != KVC_ERR_FORKED);
    _exit(wrong);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(find(store, HandleKind::store), KVC_OK) << "the parent's stay";
  store_slot_give(slot, generation + 1);
}

#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 2000;
#else
constexpr int kRounds = 20000;
#endif

// Every object is destroyed exactly once, by the retirer or by its last user, and never under a user.
TEST(HandleThreads, EightThreadsUseAndRetireTheSameHandles) {
  HandleTable table(HandleKind::scope, 1, 64, 1, std::pmr::new_delete_resource());
  struct Object {
    std::atomic<int> users{0}, ended{0};
    std::atomic<uint64_t> token{0};
  };
  std::vector<Object> objects(16);
  std::atomic<uint64_t> ends{0}, adds{0};
  std::atomic<bool> bad{false};
  for (Object &o : objects) o.token = table.add(&o), adds++;
  const auto end = [&](Object &o) {
    if (o.users.load() != 0 || o.ended.exchange(1) != 0) bad = true;
    ends++;
    o.ended = 0;
    adds++;
    o.token = table.add(&o);  // lives again under another token
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(t) + 1);
      for (int i = 0; i < kRounds && !bad; i++) {
        Object &o = objects[random() % objects.size()];
        const Token token = token_unpack(o.token.load());
        void *got = nullptr;
        if (random() % 4 == 0) {
          if (table.retire(&got, token) == KVC_OK && got) end(*static_cast<Object *>(got));
        } else if (table.enter_shared(&got, token) == KVC_OK) {
          if (got != &o) bad = true;
          o.users++;
          if (o.ended.load()) bad = true;
          o.users--;
          if (table.leave_shared(token)) end(o);
        }
      }
    });
  for (auto &t : threads) t.join();
  EXPECT_FALSE(bad);
  EXPECT_EQ(table.live_count(), objects.size());
  EXPECT_EQ(adds - ends, objects.size());
}

TEST(HandleThreads, OfEightWritersOneIsInside) {
  HandleTable table(HandleKind::seq, 1, 4, 1, std::pmr::new_delete_resource());
  int object = 0, counter = 0;
  const Token token = token_unpack(table.add(&object));
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; i++) {
        void *got;
        const kvc_status status = table.enter_exclusive(&got, token);
        if (status != KVC_OK) {
          EXPECT_EQ(status, KVC_ERR_MISUSE);
          continue;
        }
        counter++;  // no atomic: the table is what orders it
        done++;
        table.leave_exclusive(token);
      }
    });
  for (auto &t : threads) t.join();
  EXPECT_EQ(counter, done);
}

}  // namespace
}  // namespace kvc::base
