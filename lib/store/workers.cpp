#include <algorithm>
#include <array>
#include <utility>

#include "store/queue.h"
#include "store/store.h"

/// How queued calls come to run, and to their end.
namespace kvc::store {

using base::fail;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

namespace {

constexpr size_t together_max = 16;  // as many as a store reads at once

}  // namespace

void Queues::make_ready(Task &task) {
  task.state = Task::State::ready;
  ready_.push_back(&task);
  if (idle_) work_cv_.notify_one();
  if (host_driven_ && changed_waiters_) changed_cv_.notify_all();
}

/// The call may run as soon as it is the first on its sequence.
void Queues::start(Task &task) {
  if (task.seq && task.seq->line.front() != &task) task.state = Task::State::waiting;
  else make_ready(task);
}

void Queues::start_held(Queue &queue) {
  while (Task *task = queue.held.pop_front()) {
    held_count_--;
    start(*task);
  }
}

/// Out of the list of its state: from here on it is this thread's.
void Queues::set_aside(Task &task) {
  unstarted_count_--;
  if (task.state == Task::State::ready) ready_.remove(&task);
  else if (task.state == Task::State::parked) parked_.remove(&task);
  else if (task.state == Task::State::held) task.queue->held.remove(&task), held_count_--;
  task.state = Task::State::running;
}

void Queues::unpark() {
  while (Task *task = parked_.pop_front()) make_ready(*task);
}

/// Ends what has not started by its deadline.
void Queues::expire(Lock &lock) {
  const uint64_t now = clock_.now_ns();
  if (now < first_deadline_ns_) return;
  TaskList<&Task::of_state> late;
  uint64_t first = UINT64_MAX;
  for (const Queue *queue : all_)
    for (Task *task = queue->unfinished.front(); task; task = queue->unfinished.next(task)) {
      if (task->state == Task::State::running) continue;
      if (task->deadline_ns > now) {
        first = std::min(first, task->deadline_ns);
        continue;
      }
      set_aside(*task);
      late.push_back(task);
    }
  first_deadline_ns_ = first;
  lock.unlock();
  Error error;
  const kvc_status status = fail(error, KVC_ERR_TIMEOUT, "the deadline passed before the call was started");
  while (Task *task = late.pop_front()) end(*task, status, error);
  lock.lock();
}

/// Who looks at the clock may sleep until a later one.
void Queues::note_deadline(const Task &task) {
  if (task.deadline_ns >= first_deadline_ns_) return;
  first_deadline_ns_ = task.deadline_ns;
  if (watched_) work_cv_.notify_all();
  if (host_driven_ && changed_waiters_) changed_cv_.notify_all();
}

/// What time alone may have changed, and what nobody tells of.
void Queues::look_again(Lock &lock) {
  if (room_waiters_.load(std::memory_order_relaxed)) {
    lock.unlock();
    const RoomSign sign = store_.room_sign();
    lock.lock();
    if (sign != std::exchange(room_sign_, sign)) tell_of_room();
  }
  expire(lock);
}

/// How long to sleep at most until a deadline by the store's clock.
nanoseconds Queues::slice(uint64_t deadline_ns) const {
  const nanoseconds most = std::chrono::milliseconds(parked_.empty() && !room_waiters_.load(std::memory_order_relaxed) ? 50 : 2);
  const uint64_t now = clock_.now_ns();
  return deadline_ns <= now ? nanoseconds(0) : std::min(most, nanoseconds(std::min<uint64_t>(deadline_ns - now, INT64_MAX)));
}

/// The same for a thread of ours, which is told of all else that ends its sleep.
nanoseconds Queues::watch_time() const {
  constexpr nanoseconds most = std::chrono::hours(1);
  if (clock_.leaps() || room_waiters_.load(std::memory_order_relaxed)) return slice(first_deadline_ns_);
  const uint64_t now = clock_.now_ns();
  return first_deadline_ns_ <= now ? nanoseconds(0) : std::min(most, nanoseconds(std::min<uint64_t>(first_deadline_ns_ - now, INT64_MAX)));
}

void Queues::wait(std::condition_variable &changed, uint32_t &waiters, nanoseconds time, Lock &lock) {
  waiters++;
  changed.wait_for(lock, time);
  waiters--;
}

/// One thread of ours.
void Queues::work() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (run_one(lock)) {
      if (unstarted_count_) expire(lock);
      continue;
    }
    idle_++;
    if (unstarted_count_ && !watched_) {
      watched_ = true;
      work_cv_.wait_for(lock, watch_time());
      watched_ = false;
      idle_--;
      look_again(lock);
      if (idle_ && unstarted_count_) work_cv_.notify_one();  // who looks at the clock while this one works?
    } else {
      work_cv_.wait(lock);
      idle_--;
    }
  }
}

/// The next call, or the next few if they are of one kind.
bool Queues::run_one(Lock &lock) {
  Task *task = ready_.front();
  if (!task) return false;
  set_aside(*task);
  task->room_seen = room_count_;
  std::array<Task *, together_max> together;
  size_t count = 0;
  together[count++] = task;
  if (const void *kind = task->work->kind())
    for (Task *next; count < together_max && (next = ready_.front()) && next->work->kind() == kind; together[count++] = next) set_aside(*next);
  if (count > 1) {
    run_together(std::span(together).first(count), lock);
  } else {
    lock.unlock();
    run(*task);
    lock.lock();
  }
  return true;
}

void Queues::run_together(std::span<Task *const> tasks, Lock &lock) {
  std::array<bool, together_max> done{};
  std::array<uint64_t, together_max> copied_bytes;
  lock.unlock();
  const uint64_t now = clock_.now_ns();
  if (std::ranges::all_of(tasks, [&](const Task *task) { return task->deadline_ns > now; })) tasks[0]->work->run_together(tasks, std::span(done).first(tasks.size()));
  const steady_clock::time_point ended = steady_clock::now();
  for (size_t i = 0; i < tasks.size(); i++) {
    if (done[i]) copied_bytes[i] = close_out(*tasks[i], KVC_OK, {}, ended);
    else run(*tasks[i]);
  }
  lock.lock();
  for (size_t i = 0; i < tasks.size(); i++)
    if (done[i]) deliver(*tasks[i], copied_bytes[i]);
}

/// With no lock held.
void Queues::run(Task &task) {
  Error error;
  if (clock_.now_ns() >= task.deadline_ns) {
    const kvc_status late = fail(error, KVC_ERR_TIMEOUT, "the deadline passed before the call was started");
    return end(task, late, error);
  }
  if (task.wants_room) [[unlikely]] {
    const Lock lock(mutex_);  // who cancels asks whose it is
    task.begin_again();
  }
  if (task.seq) store_.begin_use(*task.seq, task.seq_token);
  const kvc_status status = task.work->run(task.result, error);
  if (task.seq) store_.slide(*task.seq);
  if (status == KVC_ERR_FULL && waits_ && !error.never) [[unlikely]] {
    end_result(task.result, status, error);
    const Lock lock(mutex_);
    if (park(task)) return;
  }
  end(task, status, error);
}

/// The call will be run again: at once when something was released meanwhile, or when nobody who releases could know yet that it waits.
bool Queues::park(Task &task) {
  if (task.queue->closing || task.cancelled) return false;
  unstarted_count_++;
  const bool again = !task.wants_room || task.room_seen != room_count_;
  if (!task.wants_room) room_waiters_.fetch_add(1, std::memory_order_relaxed);
  task.wants_room = true;
  note_deadline(task);
  if (again) {
    make_ready(task);
  } else {
    task.state = Task::State::parked;
    parked_.push_back(&task);
    if (watched_) work_cv_.notify_all();
    else if (idle_) work_cv_.notify_one();
  }
  return true;
}

/// The call is over, run or not: nothing is touched of what it was lent or had copied, whose bytes are returned.  With no lock held.
uint64_t Queues::close_out(Task &task, kvc_status status, const Error &error, steady_clock::time_point now) {
  if (task.wants_room && status == KVC_ERR_TIMEOUT) status = KVC_ERR_FULL;  // as its result says since it last ran
  else end_result(task.result, status, error);
  if (status == KVC_ERR_TIMEOUT) timeouts_.fetch_add(1, std::memory_order_relaxed);
  task.result.elapsed_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - task.begun).count());
  task.work->settle(status);
  std::destroy_at(std::exchange(task.work, nullptr));
  const uint64_t copied_bytes = task.copies.counted_bytes();
  task.copies.clear();
  return copied_bytes;
}

/// Its result can be drained.  Under the lock.
void Queues::deliver(Task &task, uint64_t copied_bytes) {
  Queue &queue = *task.queue;
  queue.description_bytes -= copied_bytes;
  if (task.wants_room) room_waiters_.fetch_sub(1, std::memory_order_relaxed);
  queue.unfinished.remove(&task);
  task.state = Task::State::finished;
  queue.finished.push_back(&task);
  queue.finished_count++;
  if (queue.drains_waiting) queue.finished_cv.notify_one();
  if (changed_waiters_) changed_cv_.notify_all();
  sync_fd(queue);
}

/// With no lock held.
void Queues::end(Task &task, kvc_status status, const Error &error) {
  const uint64_t copied_bytes = close_out(task, status, error, steady_clock::now());
  Lock lock(mutex_);
  deliver(task, copied_bytes);
  leave_line(task, lock);
}

/// The queue may be gone when this returns: a sequence that was released is ended without the lock.
void Queues::leave_line(Task &task, Lock &lock) {
  Sequence *seq = std::exchange(task.seq, nullptr);
  if (!seq) return;
  const base::Token token = task.seq_token;
  seq->line.remove(&task);
  if (Task *first = seq->line.front()) {
    if (first->state == Task::State::waiting) make_ready(*first);
    return;
  }
  const bool released = store_.seqs().leave_queued(token);
  if (changed_waiters_) changed_cv_.notify_all();
  if (!released) return;
  lock.unlock();
  store_.seq_release(*seq, token);
}

kvc_status Queues::wait_line(const base::Token &token, uint64_t deadline, Error &error) {
  Lock lock(mutex_);
  while (auto *seq = static_cast<Sequence *>(store_.seqs().queued(token))) {
    for (Task *task = seq->line.front(); task && held_count_; task = seq->line.next(task))
      if (task->state == Task::State::held) start_held(*task->queue);
    if (clock_.now_ns() >= deadline) {
      timeouts_.fetch_add(1, std::memory_order_relaxed);
      return fail(error, KVC_ERR_TIMEOUT, "queued calls on kvc_seq were not through by the deadline");
    }
    if (host_driven_ && run_one(lock)) continue;
    wait(changed_cv_, changed_waiters_, slice(deadline), lock);
    look_again(lock);
  }
  return KVC_OK;
}

Queues::RoomWait::RoomWait(Queues &queues, uint64_t timeout_us) : queues_(queues), deadline_ns_(queues.deadline_ns(timeout_us)) {
  Lock lock(queues_.mutex_);
  queues_.room_waiters_.fetch_add(1, std::memory_order_relaxed);
  room_seen_ = queues_.room_count_ - 1;  // once more at once: until now nobody who releases could know
}

Queues::RoomWait::~RoomWait() { queues_.room_waiters_.fetch_sub(1, std::memory_order_relaxed); }

bool Queues::RoomWait::again() {
  Lock lock(queues_.mutex_);
  while (room_seen_ == queues_.room_count_) {
    if (queues_.clock_.now_ns() >= deadline_ns_) return false;
    if (!queues_.host_driven_ || !queues_.run_one(lock)) queues_.wait(queues_.changed_cv_, queues_.changed_waiters_, queues_.slice(deadline_ns_), lock);
    queues_.look_again(lock);
  }
  room_seen_ = queues_.room_count_;
  return true;
}

void Queues::wake_for_room() {
  const Lock lock(mutex_);
  tell_of_room();
}

/// Under the lock.
void Queues::tell_of_room() {
  room_count_++;
  unpark();
  if (changed_waiters_) changed_cv_.notify_all();
}

uint64_t Queues::deadline_ns(uint64_t timeout_us) const {
  const uint64_t time = timeout_us ? timeout_us : timeout_us_, now = clock_.now_ns();
  return time > (UINT64_MAX - now) / 1000 ? UINT64_MAX : now + time * 1000;
}

}  // namespace kvc::store
