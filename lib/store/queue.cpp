#include "store/queue.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/check.h"
#include "base/fault.h"
#include "store/memory.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;
using base::fail_system;

namespace {

constexpr uint32_t kQueueMax = 64, kWorkerMax = 4, kDepth = 256;
constexpr uint64_t kTimeoutUs = 30000000, kDescriptionBytes = 1u << 20;

kvc_status fail_released(Error &error) { return fail(error, KVC_ERR_STALE, "kvc_queue was released before"); }

}  // namespace

void Copies::clear() {
  while (Block *block = blocks_) {
    blocks_ = block->next;
    resource_->deallocate(block, block->bytes, alignof(std::max_align_t));
  }
  counted_bytes_ = 0;
}

void Copies::count(uint64_t bytes) {
  if (bytes > bytes_left_ - counted_bytes_) throw DescriptionFull{bytes > bytes_max_ - counted_bytes_, bytes_max_};
  counted_bytes_ += bytes;
}

void *Copies::take(uint64_t bytes, uint64_t alignment) {
  void *at = left_.data();
  size_t left = left_.size();
  if (!std::align(alignment, bytes, at, left)) {
    constexpr uint64_t block_bytes = 4096, header_bytes = (sizeof(Block) + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
    const uint64_t all = std::max(block_bytes, header_bytes + bytes);
    auto *block = static_cast<Block *>(resource_->allocate(all, alignof(std::max_align_t)));
    *block = {blocks_, all};
    blocks_ = block;
    at = reinterpret_cast<std::byte *>(block) + header_bytes;
    left = all - header_bytes;
  }
  left_ = {static_cast<std::byte *>(at) + bytes, left - bytes};
  return at;
}

Queue::Queue(std::pmr::memory_resource *resource, const kvc_queue_options &o)
    : depth(o.depth ? o.depth : kDepth), description_bytes_max(o.description_bytes ? o.description_bytes : kDescriptionBytes), blocks(resource) {}

Queues::Queues(Store &store, std::pmr::memory_resource *resource, const base::Clock &clock, const kvc_store_options &o, uint32_t store_slot, uint32_t generation)
    : store_(store), resource_(resource), clock_(clock), timeout_us_(o.timeout_us ? o.timeout_us : kTimeoutUs),
      worker_count_(o.worker_count ? o.worker_count : std::clamp(std::thread::hardware_concurrency(), 1u, kWorkerMax)), queue_max_(o.queue_max ? o.queue_max : kQueueMax),
      host_driven_((o.flags & KVC_OPEN_HOST_DRIVEN) != 0), waits_((o.flags & KVC_OPEN_WAIT) != 0),
      handles_(base::HandleKind::queue, store_slot, queue_max_, generation, resource), all_(resource), threads_(resource) {}

Queues::~Queues() = default;

/// Signals of the host are for its own threads.
kvc_status Queues::start_threads(Error &error) {
  std::lock_guard lock(threads_mutex_);
  if (host_driven_ || !threads_.empty()) return KVC_OK;
  threads_.reserve(worker_count_);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = 0;
  while (!failed && threads_.size() < worker_count_) {
    pthread_t thread;
    failed = KVC_FAULT("queue.thread.create") ? EAGAIN : pthread_create(&thread, nullptr, [](void *queues) -> void * {
      static_cast<Queues *>(queues)->work();
      return nullptr;
    }, this);
    if (failed) break;
    pthread_setname_np(thread, "kvc");
    threads_.push_back(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failed) return KVC_OK;
  const size_t started = threads_.size();
  stop_threads();
  return fail_system(error, KVC_ERR_NO_MEMORY, failed, "%zu of %u threads could be started", started, worker_count_);
}

void Queues::stop_threads() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    work_cv_.notify_all();
  }
  for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  threads_.clear();
  stopping_ = false;
}

kvc_status Queues::create(uint64_t *token, const kvc_queue_options &o, Error &error) {
  if (o.flags) return fail(error, KVC_ERR_TOO_NEW, "queue flags 0x%x: unknown bits", o.flags);
  if (o.reserved) return fail(error, KVC_ERR_TOO_NEW, "reserved is %u: it must be 0", o.reserved);
  Queue *queue = make<Queue>(resource_, resource_, o);
  kvc_status status = KVC_OK;
  *token = 0;
  try {
    queue->fd = KVC_FAULT("queue.event.create") ? (errno = EMFILE, -1) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0) status = fail_system(error, KVC_ERR_IO, errno, "a queue's eventfd");
    if (status == KVC_OK) status = start_threads(error);
    if (status == KVC_OK) {
      Lock lock(mutex_);
      all_.reserve(all_.size() + 1);
      if ((*token = handles_.add(queue))) all_.push_back(queue);
      else status = fail(error, KVC_ERR_FULL, "%u queues are there: release some or raise queue_max", queue_max_);
    }
  } catch (...) {
    destroy(queue);
    throw;
  }
  if (status != KVC_OK) destroy(queue);
  return status;
}

void Queues::destroy(Queue *queue) {
  if (queue->fd >= 0) ::close(queue->fd);
  for (TaskBlock *block : queue->blocks) store::destroy(resource_, block);
  store::destroy(resource_, queue);
}

kvc_status QueueUse::enter(const base::Token &token, Error &error) {
  void *object;
  KVC_TRY(base::store_of(&object, token, base::HandleKind::queue, error));
  auto *store = static_cast<Store *>(object);
  if (store->queues().handles_.enter_shared(&object, token) != KVC_OK) return fail_released(error);
  token_ = token;
  store_ = store;
  queue_ = static_cast<Queue *>(object);
  return KVC_OK;
}

void QueueUse::leave() {
  Queue *queue = std::exchange(queue_, nullptr);
  if (!queue) return;
  Queues &queues = store_->queues();
  if (!queues.handles_.leave_shared(token_)) return;
  const Queues::Lock lock(queues.mutex_);
  queue->left = true;
  queues.changed_cv_.notify_all();
}

/// Ends those of a queue that have not started and are asked for.
template <typename Which>
void Queues::end_some(Queue &queue, Lock &lock, kvc_status status, const Error &error, Which &&which) {
  TaskList<&Task::of_state> some;
  for (Task *task = queue.unfinished.front(); task; task = queue.unfinished.next(task)) {
    if (!which(*task)) continue;
    task->cancelled = true;
    if (task->state == Task::State::running) continue;
    set_aside(*task);
    some.push_back(task);
  }
  lock.unlock();
  while (Task *task = some.pop_front()) end(*task, status, error);
  lock.lock();
}

kvc_status Queues::release(const base::Token &token, Error &error) {
  QueueUse use;
  KVC_TRY(use.enter(token, error));
  Queue &queue = use.queue();
  void *none;
  if (handles_.retire(&none, token) != KVC_OK) return fail_released(error);
  Lock lock(mutex_);
  queue.closing = true;
  queue.finished_cv.notify_all();
  changed_cv_.notify_all();
  Error why;
  const kvc_status cancelled = fail(why, KVC_ERR_CANCELLED, "kvc_queue_release");
  end_some(queue, lock, cancelled, why, [](const Task &) { return true; });
  lock.unlock();
  use.leave();
  lock.lock();
  changed_waiters_++;
  changed_cv_.wait(lock, [&] { return queue.left && queue.unfinished.empty(); });
  changed_waiters_--;
  std::erase(all_, &queue);
  lock.unlock();
  while (const Task *task = queue.finished.pop_front()) store_.release_given(task->result);
  store_.end_events(queue);
  destroy(&queue);
  return KVC_OK;
}

void Queues::close() {
  Error why;
  const kvc_status cancelled = fail(why, KVC_ERR_CANCELLED, "kvc_close");
  Lock lock(mutex_);
  for (size_t i = 0; i < all_.size(); i++) {
    all_[i]->closing = true;
    end_some(*all_[i], lock, cancelled, why, [](const Task &) { return true; });
  }
  lock.unlock();
  stop_threads();
  for (Queue *queue : all_) {
    KVC_CHECK(queue->unfinished.empty());
    destroy(queue);
  }
  all_.clear();
}

int Queues::fd(Queue &queue) {
  const Lock lock(mutex_);
  queue.fd_asked = true;
  sync_fd(queue);
  return queue.fd;
}

/// Under the lock.  What a drain is about to take is nothing to wake anybody for.  Results tell of themselves while events wait, and events while
/// results do: who polls edges and takes only the one kind would not hear of it again.
void Queues::sync_fd(Queue &queue) {
  constexpr uint32_t results = 1, events = 2;
  const uint32_t told = queue.fd_tells, finished = queue.drains ? told & results : queue.finished.empty() ? 0 : results;
  const uint32_t waiting = finished | (queue.events_wait ? events : 0);
  if (waiting == told || !queue.fd_asked) return;
  if (waiting != 0 && (waiting & ~told) == 0) {
    queue.fd_tells = waiting;
    return;
  }
  uint64_t count = 1;
  const ssize_t moved = KVC_FAULT("queue.event.write") ? (errno = EIO, -1) : waiting != 0 ? write(queue.fd, &count, sizeof count) : read(queue.fd, &count, sizeof count);
  // EAGAIN: a host that read it, too, has left nothing, or one that wrote to it as much as goes.  What fails otherwise is tried with the next result or
  // event; a drain gives them without it.
  if (moved == sizeof count || errno == EAGAIN) queue.fd_tells = waiting;
}

void Queues::set_events(Queue &queue, bool wait) {
  const Lock lock(mutex_);
  queue.events_wait = wait;
  sync_fd(queue);
}

bool Queues::is_drained(Queue &queue) {
  const Lock lock(mutex_);
  return queue.drains != 0;
}

void Queues::submit(Queue &queue) {
  const Lock lock(mutex_);
  start_held(queue);
}

kvc_status Queues::cancel(Queue &queue, uint64_t user, Error &error) {
  Error why;
  const kvc_status cancelled = fail(why, KVC_ERR_CANCELLED, "kvc_queue_cancel");
  Lock lock(mutex_);
  bool found = false;
  for (const Task *task = queue.finished.front(); task && !found; task = queue.finished.next(task)) found = task->result.user == user;
  end_some(queue, lock, cancelled, why, [&](const Task &task) {
    found = found || task.result.user == user;
    return task.result.user == user;
  });
  return found ? KVC_OK : fail(error, KVC_ERR_NOT_FOUND, "no call of user %llu is in flight", static_cast<unsigned long long>(user));
}

void Queues::wait_for_result(Queue &queue, uint64_t timeout_us, Lock &lock) {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  const auto time = timeout_us > UINT64_MAX / 1000 / 2 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(timeout_us * 1000);
  std::condition_variable &changed = host_driven_ ? changed_cv_ : queue.finished_cv;
  while (queue.finished.empty() && !queue.closing) {
    const auto passed = steady_clock::now() - begin;
    if (passed >= time) return;
    wait(changed, host_driven_ ? changed_waiters_ : queue.drains_waiting, std::min(time - passed, slice(first_deadline_ns_)), lock);
    look_again(lock);
    while (host_driven_ && queue.finished.empty() && run_one(lock)) {}
  }
}

kvc_status Queues::drain(kvc_result *results, size_t capacity, size_t *count, Queue &queue, uint64_t timeout_us, Error &error) {
  Lock lock(mutex_);
  start_held(queue);
  queue.drains++;
  look_again(lock);
  while (host_driven_ && queue.finished_count < capacity && run_one(lock)) {}
  if (timeout_us && queue.finished.empty()) wait_for_result(queue, timeout_us, lock);
  queue.drains--;
  if (queue.closing) return fail_released(error);
  *count = take(results, capacity, queue);
  sync_fd(queue);
  return KVC_OK;
}

size_t Queues::take(kvc_result *results, size_t capacity, Queue &queue) {
  const uint32_t size = results->size;
  size_t n = 0;
  for (; n < capacity; n++) {
    Task *task = queue.finished.pop_front();
    if (!task) break;
    auto *to = reinterpret_cast<kvc_result *>(reinterpret_cast<char *>(results) + n * size);
    task->result.size = size;
    give_result(*to, task->result, size);
    queue.free.push_back(task);
  }
  queue.in_flight -= static_cast<uint32_t>(n);
  queue.finished_count -= n;
  return n;
}

kvc_status Queues::step(uint32_t *more, uint64_t budget_us, Error &error) {
  if (!host_driven_) return fail(error, KVC_ERR_MISUSE, "kvc_store_step: the store was opened without KVC_OPEN_HOST_DRIVEN, its own threads do the work");
  Lock lock(mutex_);
  look_again(lock);
  if (!ready_.empty()) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(std::min<uint64_t>(budget_us, INT64_MAX / 1000)) && run_one(lock)) {}
  }
  *more = !ready_.empty();
  return KVC_OK;
}

void Queues::add_tasks(Queue &queue) {
  queue.blocks.reserve(queue.blocks.size() + 1);
  queue.blocks.push_back(make<TaskBlock>(resource_));
  for (Task &task : *queue.blocks.back()) queue.free.push_back(&task);
}

kvc_status Queues::admit(Task **out, Queue &queue, const kvc_call &call, uint32_t operation, Error &error) {
  Lock lock(mutex_);
  if (queue.closing) return fail_released(error);
  if (queue.in_flight >= queue.depth) return fail(error, KVC_ERR_BUSY, "%u calls are in flight: drain some results or raise depth", queue.depth);
  if (queue.free.empty()) add_tasks(queue);
  Task &task = *queue.free.pop_front();
  queue.in_flight++;
  const uint64_t left = queue.description_bytes_max - queue.description_bytes;
  lock.unlock();
  task.queue = &queue;
  task.state = Task::State::making;
  task.cancelled = task.wants_room = false;
  task.deadline_ns = deadline_ns(call.timeout_us);
  task.begun = std::chrono::steady_clock::now();
  task.copies.open(task.room, resource_, left, queue.description_bytes_max);
  task.result = kvc_result{};
  task.result.size = sizeof task.result;
  task.result.operation = operation;
  task.result.user = call.user;
  *out = &task;
  return KVC_OK;
}

kvc_status Queues::enter_line(Task &task, const base::Token &token, bool exclusive, Error &error) {
  const Lock lock(mutex_);
  void *object;
  const kvc_status status = store_.seqs().enter_queued(&object, token, exclusive);
  if (status == KVC_ERR_STALE) return fail(error, status, "kvc_seq was released before");
  if (status != KVC_OK) return fail(error, status, "kvc_seq is in use by another thread: this call must be alone on it");
  task.seq = static_cast<Sequence *>(object);
  task.seq_token = token;
  task.seq->line.push_back(&task);
  return KVC_OK;
}

kvc_status Queues::push(Task &task, bool more, Error &error) {
  const Lock lock(mutex_);
  Queue &queue = *task.queue;
  if (queue.closing) return fail_released(error);
  const uint64_t bytes = task.copies.counted_bytes();
  if (bytes > queue.description_bytes_max - queue.description_bytes) return fail(error, KVC_ERR_BUSY, "descriptions of calls in flight take %llu bytes, this one %llu: drain some results or raise description_bytes", static_cast<unsigned long long>(queue.description_bytes), static_cast<unsigned long long>(bytes));
  queue.description_bytes += bytes;
  queue.unfinished.push_back(&task);
  unstarted_count_++;
  note_deadline(task);
  if (more) {
    task.state = Task::State::held;
    held_count_++;
    queue.held.push_back(&task);
  } else {
    start_held(queue);
    for (Task *before = task.seq ? task.seq->line.front() : nullptr; before != &task && before && held_count_; before = task.seq->line.next(before))
      if (before->state == Task::State::held) start_held(*before->queue);
    start(task);
  }
  if (idle_ && !watched_ && task.state != Task::State::ready) work_cv_.notify_one();
  return KVC_OK;
}

/// The call was refused before it was pushed.
void Queues::give_up(Task &task) {
  if (task.work) std::destroy_at(std::exchange(task.work, nullptr));
  task.copies.clear();
  Lock lock(mutex_);
  Queue &queue = *task.queue;
  queue.in_flight--;
  queue.free.push_back(&task);
  leave_line(task, lock);
}

}  // namespace kvc::store
