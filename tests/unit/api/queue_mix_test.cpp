#include <atomic>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "queue_host.h"

/// Many threads queue a random mix on many sequences while others drain: each call has its one result, and it is what a host that ran the calls of
/// each sequence one after the other would have got.
namespace {

using namespace kvc_test;

/// What a call must come to, and the memory it was lent.
struct Expected {
  uint32_t operation = 0;
  uint64_t done = 0, begin = 0, writer = 0;
  bool may_be_cancelled = false;  // set before the call is made
  std::unique_ptr<Rows> rows;
  std::vector<int32_t> tokens;
  kvc_match_info info{};
  std::vector<kvc_object> objects;
  kvc_bytes part{};
  std::vector<uint8_t> value;
  std::atomic<int> results{0};
};

class Mix {
 public:
  Mix(bool host_driven, uint32_t depth) : host_driven_(host_driven), queue_(make_queue(host_.store, depth, 1u << 16)) {}

  void run(int writers, int drainers, int calls) {
    std::vector<std::thread> threads;
    for (int d = 0; d < drainers; d++) threads.emplace_back([&] { drain_all(); });
    std::vector<std::thread> writing;
    for (int w = 0; w < writers; w++) writing.emplace_back([&, w] { write(static_cast<uint64_t>(w) + 1, calls); });
    for (std::thread &t : writing) t.join();
    ASSERT_EQ(kvc_queue_submit(queue_, nullptr), KVC_OK);
    while (drained_ < pushed_) std::this_thread::yield();
    stop_ = true;
    for (std::thread &t : threads) t.join();
    EXPECT_EQ(drain(queue_).size(), 0u);
    std::lock_guard lock(mutex_);
    EXPECT_EQ(calls_.size(), pushed_) << "one for each call that was taken";
    for (const auto &[user, e] : calls_) EXPECT_EQ(e->results, 1) << "call " << user << " of kind " << e->operation;
    kvc_store_info info = sized<kvc_store_info>();
    ASSERT_EQ(kvc_store_get_info(&info, host_.store, nullptr), KVC_OK);
    EXPECT_EQ(info.seq_count, 0u) << "every sequence was released";
  }

 private:
  static kvc_store_options options_of(bool host_driven) {
    kvc_store_options options = Host::options_of(64u << 20, host_driven ? static_cast<uint32_t>(KVC_OPEN_HOST_DRIVEN) : 0);
    options.worker_count = 4;
    return options;
  }

  /// A call is counted before it is made: its result may come before it returns.
  Expected &expect(uint64_t *user) {
    std::lock_guard lock(mutex_);
    *user = ++users_;
    return *(calls_[*user] = std::make_unique<Expected>());
  }
  bool may_be_cancelled(uint64_t user) {
    std::lock_guard lock(mutex_);
    const auto found = calls_.find(user);
    return found != calls_.end() && found->second->may_be_cancelled;
  }
  /// Makes a call until the queue has room for it.
  template <typename F>
  void push(F &&make) {
    kvc_status status;
    while ((status = make()) == KVC_ERR_BUSY) std::this_thread::yield();
    ASSERT_EQ(status, KVC_OK);
    pushed_++;
  }

  void write(uint64_t writer, int calls) {
    std::mt19937_64 random(writer);
    SeqHandle seq = host_.create();
    uint64_t length = 0;
    std::vector<int32_t> prompt = ids(4000, static_cast<int32_t>(writer));
    for (int i = 0; i < calls && !testing::Test::HasFatalFailure(); i++) {
      uint64_t user;
      Expected &e = expect(&user);
      kvc_call call = queued(queue_, user, random() % 3 ? static_cast<uint32_t>(KVC_CALL_MORE) : 0);
      e.writer = writer;
      switch (length == 0 ? 0 : random() % 6) {
        case 0:
        case 1: append(e, seq, prompt, &length, 1 + random() % 40, call); break;
        case 2: gather(e, seq, length, random, call); break;
        case 3: match(e, prompt, length, call); break;
        case 4: object(e, user, random, call); break;
        default: cut(e, user, seq, &length, random); break;
      }
      if (may_be_cancelled(user) && random() % 4 == 0) (void)kvc_queue_cancel(queue_, user, nullptr);  // it may be drained already
      if (length > 2000 || random() % 50 == 0) {  // queued calls run on
        ASSERT_EQ(kvc_seq_release(seq.release(), nullptr), KVC_OK);
        seq = host_.create();
        length = 0;
      }
    }
    ASSERT_EQ(kvc_seq_release(seq.release(), nullptr), KVC_OK);
  }

  void append(Expected &e, kvc_seq *seq, const std::vector<int32_t> &prompt, uint64_t *length, uint64_t count, kvc_call &call) {
    e.operation = KVC_OP_APPEND;
    e.rows = std::make_unique<Rows>(count);
    e.tokens.assign(prompt.begin() + static_cast<int64_t>(*length), prompt.begin() + static_cast<int64_t>(*length + count));
    kvc_rows rows = e.rows->fill(e.writer, *length).describe(*length);
    push([&] { return kvc_append(seq, e.tokens.data(), count, &rows, 1, &call, nullptr); });
    std::memset(&rows, 0xEE, sizeof rows);
    *length += count;
  }
  void gather(Expected &e, kvc_seq *seq, uint64_t length, std::mt19937_64 &random, kvc_call &call) {
    e.operation = KVC_OP_GATHER;
    e.may_be_cancelled = true;
    e.begin = random() % length;
    const uint64_t count = 1 + random() % (length - e.begin);
    e.rows = std::make_unique<Rows>(count);
    e.done = e.begin + count;
    kvc_rows rows = e.rows->describe(e.begin);
    std::vector<int32_t> blocks(count);  // slot i of the call is block count - 1 - i: undone again, so that a lost table is seen
    for (uint64_t i = 0; i < count; i++) blocks[i] = static_cast<int32_t>(i);
    rows.block_tokens = 1, rows.blocks = blocks.data(), rows.block_count = count;
    push([&] { return kvc_gather(nullptr, seq, &rows, 1, &call, nullptr); });
    std::memset(&rows, 0xEE, sizeof rows);
    std::fill(blocks.begin(), blocks.end(), -1);
  }
  void match(Expected &e, const std::vector<int32_t> &prompt, uint64_t length, kvc_call &call) {
    e.operation = KVC_OP_MATCH;
    e.may_be_cancelled = true;
    e.done = length;  // at most
    e.info = sized<kvc_match_info>();
    e.tokens.assign(prompt.begin(), prompt.begin() + static_cast<int64_t>(length));
    push([&] { return kvc_match(nullptr, &e.info, host_.scope, e.tokens.data(), e.tokens.size(), nullptr, &call, nullptr); });
  }
  /// A value of its own under a key of its own.
  void object(Expected &e, uint64_t user, std::mt19937_64 &random, kvc_call &call) {
    e.operation = KVC_OP_OBJECT_PUT;
    e.may_be_cancelled = true;
    e.value.resize(random() % 5000);
    for (uint8_t &b : e.value) b = static_cast<uint8_t>(random());
    std::string key = "key" + std::to_string(user);
    e.part = {e.value.data(), e.value.size()};
    kvc_bytes parts[1] = {e.part};
    e.objects.resize(1);
    e.objects[0].key = key.data(), e.objects[0].key_size = key.size(), e.objects[0].parts = parts, e.objects[0].part_count = 1;
    push([&] { return kvc_object_put(nullptr, host_.scope, e.objects.data(), 1, nullptr, &call, nullptr); });
    std::fill(key.begin(), key.end(), 'x');
    parts[0] = {nullptr, 0};
  }
  /// A call that blocks, in order with those that are queued.
  void cut(Expected &e, uint64_t user, kvc_seq *seq, uint64_t *length, std::mt19937_64 &random) {
    const uint64_t to = random() % (*length + 1);
    ErrorText error;
    ASSERT_EQ(kvc_seq_truncate(seq, to, &error), KVC_OK) << error.message;
    *length = to;
    auto info = sized<kvc_seq_info>();
    ASSERT_EQ(kvc_seq_get_info(&info, seq, &error), KVC_OK) << error.message;
    ASSERT_EQ(info.tokens, to);
    (void)e;
    std::lock_guard lock(mutex_);
    calls_.erase(user);
  }

  void drain_all() {
    std::mt19937_64 random(std::hash<std::thread::id>()(std::this_thread::get_id()));
    while (!stop_) {
      for (const kvc_result &r : drain(queue_, random() % 2 ? 0 : 2000, 1 + random() % 9)) check(r);
    }
  }
  void check(const kvc_result &r) {
    Expected *e;
    {
      std::lock_guard lock(mutex_);
      const auto found = calls_.find(r.user);
      ASSERT_NE(found, calls_.end()) << "a result of no call";
      e = found->second.get();
    }
    EXPECT_EQ(r.operation, e->operation);
    e->results++;
    if (r.status == KVC_ERR_CANCELLED) {
      EXPECT_TRUE(e->may_be_cancelled);
    } else {
      EXPECT_EQ(r.status, KVC_OK) << r.message;
      if (r.operation == KVC_OP_GATHER) {
        EXPECT_EQ(r.done, e->done);
        EXPECT_EQ(e->rows->wrong(e->writer, e->begin), e->rows->k.size() / 8);
      } else if (r.operation == KVC_OP_MATCH) {
        EXPECT_LE(r.done, e->done);
        EXPECT_EQ(r.done, e->info.tokens);
        Rows rows(r.done);
        if (r.done) {
          EXPECT_EQ(host_gather(r.seq, rows), KVC_OK);
          EXPECT_EQ(rows.wrong(e->writer, 0), r.done);
        }
        EXPECT_EQ(kvc_seq_release(r.seq, nullptr), KVC_OK);
      } else if (r.operation == KVC_OP_OBJECT_PUT) {
        EXPECT_EQ(e->objects[0].status, KVC_OK);
        EXPECT_EQ(r.bytes, e->value.size());
        std::vector<uint8_t> got(e->value.size());
        kvc_bytes part = {got.data(), got.size()};
        const std::string key = "key" + std::to_string(r.user);
        kvc_object object{};
        object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
        EXPECT_EQ(kvc_object_get(nullptr, host_.scope, &object, 1, nullptr, nullptr, nullptr), KVC_OK);
        EXPECT_EQ(got, e->value);
      }
    }
    drained_++;
  }
  static kvc_status host_gather(const kvc_seq *seq, Rows &rows) {
    const kvc_rows r = rows.describe(0);
    return kvc_gather(nullptr, seq, &r, 1, nullptr, nullptr);
  }

  bool host_driven_;
  Host host_{options_of(host_driven_), {full_layers(1, 1, 8, 8)}, KVC_F16, 16};
  QueueHandle queue_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Expected>> calls_;
  uint64_t users_ = 0;
  std::atomic<uint64_t> pushed_{0}, drained_{0};
  std::atomic<bool> stop_{false};
};

TEST(QueueMix, threads_of_kvc_run_what_four_threads_queue_and_eight_drain) { Mix(false, 32).run(4, 8, 400); }
TEST(QueueMix, a_host_driven_store_runs_it_in_the_threads_that_drain) { Mix(true, 32).run(4, 8, 400); }
TEST(QueueMix, one_thread_drains_a_deep_queue) { Mix(false, 1000).run(2, 1, 400); }

}  // namespace
