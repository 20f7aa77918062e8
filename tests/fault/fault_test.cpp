// Each fault point fires at its first pass, its second, ... until a scenario over the whole surface runs through without it: every failed call has
// the right status, has changed nothing stored, leaks nothing, and succeeds when it is made again.
#include "base/fault.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "news.h"
#include "scenario.h"

namespace kvc::fault {
namespace {

constexpr const char *kNew = "operator new";  // no fault point: what the library asks the program for
constexpr const char *kPageCheck = "store.page.verify";  // takes data away by what it is; it has a test of its own
constexpr const char *kHashContext = "base.sha256.context";  // made once in a thread, so an append in a thread of its own has a test too

/// What a call says when the point fires in it; KVC_OK is allowed where the call can do without.
kvc_status expected_status(const std::string &point) {
  static const std::map<std::string, kvc_status> statuses = {
      {kNew, KVC_ERR_NO_MEMORY},
      {"base.random.fill", KVC_ERR_IO},         {kHashContext, KVC_ERR_NO_MEMORY},        {"memory.arena.map", KVC_ERR_NO_MEMORY},  {"memory.resource.allocate", KVC_ERR_NO_MEMORY},
      {"seq.index.limit", KVC_ERR_NO_MEMORY},   {"store.trace.write", KVC_ERR_IO},
      {"memory.slab.take", KVC_ERR_FULL},       {"seq.index.reserve", KVC_ERR_NO_MEMORY}, {"store.append.reserved", KVC_ERR_NO_MEMORY},
      {"queue.event.create", KVC_ERR_IO},       {"queue.thread.create", KVC_ERR_NO_MEMORY}, {"queue.event.write", KVC_OK},  // a drain does without
  };
  if (point.starts_with("io.")) return KVC_ERR_IO;
  const auto found = statuses.find(point);
  EXPECT_NE(found, statuses.end()) << "no status is listed for the point " << point;
  return found == statuses.end() ? KVC_OK : found->second;
}

uint64_t passes_of(const std::string &point) { return point == kNew ? news_passed() : base::fault_passes(point.c_str()); }

void arm(const std::string &point, uint64_t nth, uint64_t count) {
  if (point == kNew) return news_arm(nth, count);
  EXPECT_TRUE(base::fault_arm(point.c_str(), nth, count)) << point;
}

void disarm() {
  news_arm(1, 0);
  base::fault_disarm_all();
}

/// Every place at which the world can fail.
std::vector<std::string> all_points() {
  std::vector<std::string> points = base::fault_points();
  std::erase(points, kPageCheck);
  points.push_back(kNew);
  return points;
}

struct Clean {
  Conditions conditions;
  std::vector<std::string> snapshots, held, lengths;  // after each step
  std::vector<std::vector<Scenario::Page>> pages;
  uint64_t metadata_bytes = 0, drained_metadata_bytes = 0;
};

Clean clean_run(Conditions conditions) {
  Clean clean;
  clean.conditions = conditions;
  Scenario scenario(conditions);
  for (const Scenario::Step &step : scenario.steps()) {
    EXPECT_EQ(step.call(), KVC_OK) << step.name << ": " << scenario.message();
    clean.snapshots.push_back(scenario.snapshot());
    clean.held.push_back(scenario.snapshot(true));
    clean.lengths.push_back(scenario.lengths());
    clean.pages.push_back(scenario.pages());
  }
  clean.metadata_bytes = scenario.metadata_bytes();
  EXPECT_EQ(scenario.drain(), "");
  clean.drained_metadata_bytes = scenario.metadata_bytes();
  EXPECT_EQ(scenario.close(), KVC_OK);
  return clean;
}

/// Fails the nth pass of a scenario through a point, in the steps whose names begin so; with `lasting` every later one too, until it is told to stop.
class Trigger {
 public:
  Trigger(std::string point, uint64_t nth, const char *steps = "", bool lasting = false) : point_(std::move(point)), nth_(nth), steps_(steps), lasting_(lasting) {}
  kvc_status call(const Scenario::Step &step) {
    if (has_fired() || step.prepares || !step.name.starts_with(steps_)) return step.call();
    const uint64_t passes = passes_of(point_);
    arm(point_, nth_ - passed_, lasting_ ? UINT64_MAX : 1);
    const kvc_status status = step.call();
    passed_ += passes_of(point_) - passes;
    if (!lasting_ || !has_fired()) disarm();
    return status;
  }
  bool has_fired() const { return passed_ >= nth_; }
  std::string where(const Scenario::Step &step) const { return point_ + ", pass " + std::to_string(nth_) + (lasting_ ? " and later" : "") + ", in " + step.name; }

 private:
  const std::string point_;
  const uint64_t nth_;
  const char *const steps_;
  const bool lasting_;
  uint64_t passed_ = 0;
};

/// The call in which the point fired: it failed as it should, left everything as it was, and succeeds when it is made again.
void expect_no_trace(Scenario &scenario, const Clean &clean, size_t i, kvc_status status, kvc_status expected, const std::string &where) {
  if (status == KVC_OK) {
    const bool is_full = expected == KVC_ERR_FULL;  // it evicted what nobody holds
    EXPECT_TRUE(scenario.snapshot(is_full) == (is_full ? clean.held : clean.snapshots)[i]) << where << ": it did without, and something is different";
    return;
  }
  EXPECT_EQ(status, expected) << where << ": " << scenario.message();
  EXPECT_NE(std::string(scenario.message()), "") << where;
  const bool evicts = scenario.steps()[i].evicts;
  EXPECT_TRUE(scenario.snapshot(evicts) == (i ? (evicts ? clean.held : clean.snapshots)[i - 1] : "")) << where << ": the failed call changed what is stored";
  if (scenario.is_open()) {
    EXPECT_EQ(scenario.verify(), KVC_OK) << where << ": " << scenario.message();
  }
  EXPECT_EQ(scenario.steps()[i].call(), KVC_OK) << where << ", again: " << scenario.message();
  EXPECT_TRUE(scenario.snapshot() == clean.snapshots[i]) << where << ": made again it gave something else";
}

/// One run in which the nth pass fails; false: there was none.
bool run(const std::string &point, uint64_t nth, const Clean &clean, const char *steps = "") {
  const kvc_status expected = expected_status(point);
  const int64_t alive = news_alive();
  bool fired = false, evicted = false;
  {
    Scenario scenario(clean.conditions);
    Trigger trigger(point, nth, steps);
    for (size_t i = 0; i < scenario.steps().size(); i++) {
      const Scenario::Step &step = scenario.steps()[i];
      const bool before = trigger.has_fired();
      const kvc_status status = trigger.call(step);
      if (trigger.has_fired() && !before) {
        expect_no_trace(scenario, clean, i, status, expected, trigger.where(step));
        evicted = status == KVC_OK && expected == KVC_ERR_FULL;
      } else {
        EXPECT_EQ(status, KVC_OK) << trigger.where(step) << ": " << scenario.message();
      }
    }
    const std::string where = point + ", pass " + std::to_string(nth);
    EXPECT_TRUE(scenario.snapshot(evicted) == (evicted ? clean.held : clean.snapshots).back()) << where << ": the end differs";
    if (!clean.conditions.tight && !evicted) {  // there it depends on how many of the others had to go
      EXPECT_EQ(scenario.metadata_bytes(), clean.metadata_bytes) << where << ": bookkeeping was left behind";
    }
    EXPECT_EQ(scenario.verify(), KVC_OK) << where << ": " << scenario.message();
    EXPECT_EQ(scenario.drain(), "") << where;
    // The heap of what goes next is as long as it ever had to be, which in a tight store depends on what went when.
    const uint64_t heap_bytes = clean.conditions.tight ? 4096 : 0;
    EXPECT_LE(scenario.metadata_bytes(), clean.drained_metadata_bytes + heap_bytes) << where << ": bookkeeping of nothing was left behind";
    EXPECT_TRUE(evicted || heap_bytes || scenario.metadata_bytes() == clean.drained_metadata_bytes) << where << ": " << scenario.metadata_bytes() << " bytes, not " << clean.drained_metadata_bytes;
    EXPECT_EQ(scenario.close(), KVC_OK) << where;
    fired = trigger.has_fired();
  }
  EXPECT_EQ(news_alive(), alive) << point << ", pass " << nth << ": blocks were left behind";
  return fired;
}

void sweep(Conditions conditions) {
  const Clean clean = clean_run(conditions);
  ASSERT_FALSE(testing::Test::HasFailure());
  for (const std::string &point : all_points()) {
    uint64_t nth = 1;
    while (run(point, nth, clean) && !testing::Test::HasFailure()) nth++;
    ASSERT_FALSE(testing::Test::HasFailure());
    EXPECT_GT(nth, 1u) << point << " was never passed";
    testing::Test::RecordProperty(point, static_cast<int>(nth - 1));
  }
}

/// One run in which the nth pass and all later ones fail: the call fails again and again without a trace, everything can be released and the store
/// closed while it lasts, and the program has all its memory back.  False: there was no such pass.
bool run_lasting(const std::string &point, uint64_t nth, const Clean &clean) {
  const kvc_status expected = expected_status(point);
  const int64_t alive = news_alive();
  bool fired = false;
  {
    Scenario scenario(clean.conditions);
    Trigger trigger(point, nth, "", true);
    for (size_t i = 0; i < scenario.steps().size() && !fired; i++) {
      const Scenario::Step &step = scenario.steps()[i];
      kvc_status status = trigger.call(step);
      const std::string where = trigger.where(step);
      fired = trigger.has_fired();
      for (int again = 0; fired && status != KVC_OK && again < 2; again++) {
        EXPECT_EQ(status, expected) << where << ": " << scenario.message();
        EXPECT_NE(std::string(scenario.message()), "") << where;
        status = step.call();
        if (point == "store.trace.write") break;  // the first failure has ended the recording
        EXPECT_NE(status, KVC_OK) << where << ": it lasts, and the call succeeds the second time";
      }
      EXPECT_TRUE(fired || status == KVC_OK) << where << ": " << scenario.message();
      if (fired && nth % 2) {  // of the others the handles end first
        disarm();
        const bool evicts = expected == KVC_ERR_FULL || step.evicts;  // before it fails, it has evicted what nobody holds
        const std::vector<std::string> &snapshots = evicts ? clean.held : clean.snapshots;
        const std::string before = i ? snapshots[i - 1] : "";
        EXPECT_TRUE(scenario.snapshot(evicts) == (status == KVC_OK ? snapshots[i] : before)) << where << ": something is different";
        EXPECT_TRUE(!scenario.is_open() || scenario.verify() == KVC_OK) << where << ": " << scenario.message();
        arm(point, 1, UINT64_MAX);
      }
    }
    const std::string where = point + ", pass " + std::to_string(nth) + " and later";
    EXPECT_EQ(scenario.is_open() ? scenario.release() : "", "") << where;
    EXPECT_EQ(scenario.close(), KVC_OK) << where << ": " << scenario.message();
    disarm();
  }
  EXPECT_EQ(news_alive(), alive) << point << ", pass " << nth << " and later: blocks were left behind";
  return fired;
}

TEST(Fault, EveryPointFailsEveryCallThatPassesItWithoutATrace) { sweep({}); }

TEST(Fault, InAStoreThatHasToEvictForEverySlotEveryPointFailsWithoutATraceToo) { sweep({.tight = true}); }

TEST(Fault, WhenAPointGoesOnFailingCallsGoOnFailingWithoutATraceAndEverythingCanBeReleased) {
  const Clean clean = clean_run({});
  ASSERT_FALSE(HasFailure());
  for (const std::string &point : all_points()) {
    uint64_t nth = 1;
    while (run_lasting(point, nth, clean) && !HasFailure()) nth++;
    ASSERT_FALSE(HasFailure());
    EXPECT_GT(nth, 1u) << point << " was never passed";
  }
}

TEST(Fault, AnAppendThatIsTheFirstOfItsThreadToHashFailsWithoutATrace) {
  const Clean clean = clean_run({});
  uint64_t nth = 0;
  for (bool has_fired = true; has_fired && !HasFailure();) {
    nth++;
    std::thread([&] { has_fired = run(kHashContext, nth, clean, "append"); }).join();
  }
  EXPECT_GT(nth, 2u) << "names and write ids";
}

/// Of the pages that were there one chunk's are gone, and all others are what they were.  A verify also reads chunks that no sequence has.
void expect_one_chunk_gone(const std::vector<Scenario::Page> &before, const std::vector<Scenario::Page> &after, bool is_verify, const std::string &where) {
  ASSERT_EQ(before.size(), after.size()) << where;
  std::set<uint64_t> gone;
  for (size_t i = 0; i < before.size(); i++) {
    if (after[i].rows) {
      EXPECT_TRUE(after[i].rows == before[i].rows) << where << ": wrong rows in chunk " << after[i].chunk;
    } else {
      gone.insert(after[i].chunk);
    }
  }
  EXPECT_LE(gone.size(), 1u) << where;
  EXPECT_TRUE(is_verify || !gone.empty()) << where << ": the chunk that failed is still read";
}

// A page that fails its check is gone: the one failure that takes something away, and nothing but that.
TEST(Fault, APageThatFailsItsCheckIsDroppedAndTheRestIsAsItWas) {
  const Clean clean = clean_run({.verify_reads = true});
  ASSERT_FALSE(HasFailure());
  std::set<std::string> reached;
  bool fired = true;
  for (uint64_t nth = 1; fired && !HasFailure(); nth++) {
    Scenario scenario(clean.conditions);
    Trigger trigger(kPageCheck, nth);
    for (size_t i = 0; i < scenario.steps().size() && !trigger.has_fired(); i++) {
      const Scenario::Step &step = scenario.steps()[i];
      const kvc_status status = step.beside ? step.call() : trigger.call(step);
      const std::string where = trigger.where(step);
      if (!trigger.has_fired()) {
        EXPECT_EQ(status, KVC_OK) << where << ": " << scenario.message();
        continue;
      }
      const bool is_verify = step.name == "store_verify";
      EXPECT_EQ(status, is_verify ? KVC_ERR_CORRUPT : KVC_ERR_GONE) << where << ": " << scenario.message();
      EXPECT_NE(std::string(scenario.message()), "") << where;
      EXPECT_EQ(scenario.lengths(), clean.lengths[i - 1]) << where;
      expect_one_chunk_gone(clean.pages[i - 1], scenario.pages(), is_verify, where);
      EXPECT_EQ(scenario.verify(), KVC_OK) << where << ": " << scenario.message();
      reached.insert(step.name);
    }
    fired = trigger.has_fired();
    EXPECT_EQ(scenario.drain(), "") << "pass " << nth;
    EXPECT_EQ(scenario.close(), KVC_OK);
  }
  for (const char *step : {"append to a fork that was cut", "gather", "gather a list", "store_verify"}) EXPECT_TRUE(reached.contains(step)) << step;
}

TEST(Fault, NoPointIsLeftThatNeverFired) {
  const std::vector<std::string> left = base::fault_points_never_fired();
  std::string names;
  for (const std::string &name : left) names += name + " ";
  EXPECT_TRUE(left.empty()) << "never made anything fail: " << names << "(with the tests before this one)";
}

}  // namespace
}  // namespace kvc::fault
