#pragma once
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "kvc/queue.h"
#include "kvc/store.h"
#include "store/task.h"

/// Calls that do not block.
namespace kvc::store {

class Store;
using base::Error;

/// What differs when there may be more room in a store than before.
struct RoomSign {
  uint64_t let_go = 0, lapsed = 0, used_bytes = 0, open_bytes = 0;
  friend bool operator==(const RoomSign &, const RoomSign &) = default;
};

struct Queue {
  Queue(std::pmr::memory_resource *resource, const kvc_queue_options &options);

  const uint32_t depth;
  const uint64_t description_bytes_max;
  int fd = -1;
  bool fd_asked = false, events_wait = false;
  uint32_t fd_tells = 0;               // of what the descriptor tells: bits of Queues::sync_fd
  bool closing = false, left = false;  // left: no other call is inside, nor will be
  uint32_t in_flight = 0;              // results not drained
  uint32_t drains = 0;                 // calls that take results at this moment: they see to the descriptor when they are through
  uint32_t drains_waiting = 0;
  size_t finished_count = 0;
  uint64_t description_bytes = 0;
  TaskList<&Task::of_queue> unfinished;
  TaskList<&Task::of_state> held, finished, free;
  std::pmr::vector<TaskBlock *> blocks;
  std::condition_variable finished_cv;
};

/// All queues of a store, the calls in them and the threads that run them.  One lock covers the lists; no call runs under it, and the store's own lock
/// is never taken under it.  Calls on one sequence stand in a line (Sequence::line) from their making on, and only its first runs.
class Queues {
 public:
  Queues(Store &store, std::pmr::memory_resource *resource, const base::Clock &clock, const kvc_store_options &options, uint32_t store_slot, uint32_t generation);
  ~Queues();

  [[nodiscard]] kvc_status create(uint64_t *token, const kvc_queue_options &options, Error &error);
  [[nodiscard]] kvc_status release(const base::Token &token, Error &error);
  /// Cancels, waits for what runs, ends the threads.
  void close();

  int fd(Queue &queue);
  void submit(Queue &queue);
  [[nodiscard]] kvc_status cancel(Queue &queue, uint64_t user, Error &error);
  [[nodiscard]] kvc_status drain(kvc_result *results, size_t capacity, size_t *count, Queue &queue, uint64_t timeout_us, Error &error);
  [[nodiscard]] kvc_status step(uint32_t *more, uint64_t budget_us, Error &error);
  /// The queue's descriptor is readable while events wait, too.
  void set_events(Queue &queue, bool wait);
  /// A call is taking results of it at this moment, or waits for some.
  bool is_drained(Queue &queue);

  /// A place for a call; BUSY.  Ends with push or give_up.
  [[nodiscard]] kvc_status admit(Task **out, Queue &queue, const kvc_call &call, uint32_t operation, Error &error);
  /// The call's place in the line of its sequence.
  [[nodiscard]] kvc_status enter_line(Task &task, const base::Token &seq, bool exclusive, Error &error);
  /// From here on the call has its one result.
  [[nodiscard]] kvc_status push(Task &task, bool more, Error &error);
  void give_up(Task &task);

  /// For a call that blocks on a sequence with queued calls: waits until they are through.  TIMEOUT.
  [[nodiscard]] kvc_status wait_line(const base::Token &seq, uint64_t deadline, Error &error);
  /// By the store's clock; 0: the store's timeout.
  uint64_t deadline_ns(uint64_t timeout_us) const;
  /// KVC_OPEN_WAIT.
  bool waits() const { return waits_; }
  /// For a call that blocks and was refused for want of room: counted among those who wait for it while this lives.
  class RoomWait {
   public:
    RoomWait(Queues &queues, uint64_t timeout_us);
    ~RoomWait();
    /// Returns when there may be more room than before; false: the time is over.
    bool again();

   private:
    Queues &queues_;
    const uint64_t deadline_ns_;
    uint64_t room_seen_;
  };
  /// Something was released.  With no lock held but the store's.
  void room_freed() {
    if (room_waiters_.load(std::memory_order_relaxed)) [[unlikely]] wake_for_room();
  }

  base::HandleTable &handles() { return handles_; }
  uint64_t timeouts() const { return timeouts_.load(std::memory_order_relaxed); }

 private:
  friend class QueueUse;
  using Lock = std::unique_lock<std::mutex>;

  // queue.cpp
  kvc_status start_threads(Error &error);
  void stop_threads();
  void destroy(Queue *queue);
  void add_tasks(Queue &queue);
  void wait_for_result(Queue &queue, uint64_t timeout_us, Lock &lock);
  size_t take(kvc_result *results, size_t capacity, Queue &queue);
  void sync_fd(Queue &queue);
  template <typename Which>
  void end_some(Queue &queue, Lock &lock, kvc_status status, const Error &error, Which &&which);

  // workers.cpp
  void work();
  bool run_one(Lock &lock);
  void run(Task &task);
  void run_together(std::span<Task *const> tasks, Lock &lock);
  uint64_t close_out(Task &task, kvc_status status, const Error &error, std::chrono::steady_clock::time_point now);
  void deliver(Task &task, uint64_t copied_bytes);
  void end(Task &task, kvc_status status, const Error &error);
  bool park(Task &task);
  void start(Task &task);
  void start_held(Queue &queue);
  void make_ready(Task &task);
  void set_aside(Task &task);
  void leave_line(Task &task, Lock &lock);
  void unpark();
  void note_deadline(const Task &task);
  void expire(Lock &lock);
  void look_again(Lock &lock);
  void wait(std::condition_variable &changed, uint32_t &waiters, std::chrono::nanoseconds time, Lock &lock);
  std::chrono::nanoseconds slice(uint64_t deadline_ns) const;
  std::chrono::nanoseconds watch_time() const;
  void wake_for_room();
  void tell_of_room();

  Store &store_;
  std::pmr::memory_resource *const resource_;
  const base::Clock &clock_;
  const uint64_t timeout_us_;
  const uint32_t worker_count_, queue_max_;
  const bool host_driven_, waits_;
  base::HandleTable handles_;

  std::mutex mutex_;
  std::condition_variable work_cv_, changed_cv_;  // for threads of ours; for all who wait for lines, room, releases, and on a host-driven store for work
  std::pmr::vector<Queue *> all_;
  TaskList<&Task::of_state> ready_, parked_;
  uint32_t idle_ = 0, changed_waiters_ = 0;
  uint32_t unstarted_count_ = 0, held_count_ = 0;  // unstarted: held, waiting, ready or parked
  bool watched_ = false;                           // a thread of ours looks at the clock
  uint64_t first_deadline_ns_ = UINT64_MAX;        // no call that has not started has an earlier one
  std::atomic<uint32_t> room_waiters_{0};
  std::atomic<uint64_t> timeouts_{0};
  uint64_t room_count_ = 0;  // releases that somebody waited for
  RoomSign room_sign_;       // as it was looked at last
  bool stopping_ = false;

  std::mutex threads_mutex_;
  std::pmr::vector<pthread_t> threads_;
};

/// A queue in use by a call.
class QueueUse {
 public:
  QueueUse() = default;
  QueueUse(const QueueUse &) = delete;
  QueueUse &operator=(const QueueUse &) = delete;
  ~QueueUse() { leave(); }
  [[nodiscard]] kvc_status enter(const base::Token &token, Error &error);
  void leave();
  Store &store() { return *store_; }
  Queue &queue() { return *queue_; }

 private:
  base::Token token_;
  Store *store_ = nullptr;
  Queue *queue_ = nullptr;
};

}  // namespace kvc::store
