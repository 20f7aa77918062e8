#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <span>
#include <tuple>

#include "base/error.h"
#include "base/handle.h"
#include "kvc/types.h"

/// A queued call from its making until its result is drained.
namespace kvc::store {

struct Queue;
struct Sequence;
struct Task;

/// What a call came to, in the result that a host sees.
inline void end_result(kvc_result &result, kvc_status status, const base::Error &error) {
  result.status = status;
  if (status == KVC_OK) return;
  result.retry = base::retry_of(status, error);
  result.system_error = error.system_error;
  const size_t bytes = base::fitting_bytes(error.message, sizeof result.message);
  std::memcpy(result.message, error.message, bytes);
  result.message[bytes] = '\0';  // a call that waits for room has said something already
}

/// Into a host's struct of its size, which may cut the message.
inline void give_result(kvc_result &to, const kvc_result &from, uint32_t size) {
  const size_t bytes = std::min<size_t>(size, sizeof from);
  std::memcpy(static_cast<void *>(&to), &from, bytes);
  if (bytes > offsetof(kvc_result, message)) to.message[base::fitting_bytes(from.message, bytes - offsetof(kvc_result, message))] = '\0';
}

/// The call itself, read and checked.  It holds its scope; its sequence is held by the task.
class Work {
 public:
  virtual ~Work() = default;
  /// Throws nothing.  KVC_ERR_FULL may be run again.
  virtual kvc_status run(kvc_result &result, base::Error &error) = 0;
  /// The last touch of lent memory, whether the call ran or not.
  virtual void settle(kvc_status) {}
  /// Not null: neighbours of the same kind may run as one.
  virtual const void *kind() { return nullptr; }
  /// Runs calls of one kind as one, this is the first.  `done` of those that came to their end with KVC_OK; the others are run by themselves.
  virtual void run_together(std::span<Task *const>, std::span<bool>) {}
};

/// Copies do not fit in the queue's description_bytes.
struct DescriptionFull {
  bool never;  // this call alone is too large
  uint64_t bytes_max;
};

/// What a queued call copies: in the room that comes with its task, then in blocks.
class Copies {
 public:
  Copies() = default;
  ~Copies() { clear(); }
  Copies(const Copies &) = delete;
  Copies &operator=(const Copies &) = delete;
  /// `bytes_left`: what the queue has room for now.
  void open(std::span<std::byte> room, std::pmr::memory_resource *resource, uint64_t bytes_left, uint64_t bytes_max) {
    left_ = room;
    resource_ = resource;
    bytes_left_ = bytes_left;
    bytes_max_ = bytes_max;
  }
  void clear();

  /// Memory that is not counted as a copy.
  void *take(uint64_t bytes, uint64_t alignment);
  /// Counts bytes of a description that lie elsewhere.  Throws DescriptionFull.
  void count(uint64_t bytes);
  /// Throws DescriptionFull, std::bad_alloc.
  template <typename T>
  T *copy(const T *from, uint64_t count_of) {
    count(count_of > bytes_max_ / sizeof(T) ? UINT64_MAX : count_of * sizeof(T));
    void *to = take(count_of * sizeof(T), alignof(T));
    if (count_of) std::memcpy(to, from, count_of * sizeof(T));
    return static_cast<T *>(to);
  }
  uint64_t counted_bytes() const { return counted_bytes_; }

 private:
  struct Block {
    Block *next;
    uint64_t bytes;
  };
  std::span<std::byte> left_;
  std::pmr::memory_resource *resource_ = nullptr;
  Block *blocks_ = nullptr;
  uint64_t counted_bytes_ = 0, bytes_left_ = 0, bytes_max_ = 0;
};

/// A place in a list, inside of what is listed.
struct Link {
  Task *next = nullptr, *before = nullptr;
};

/// Everything but the call itself is under the lock of the store's queues.
struct Task {
  enum class State : uint8_t {
    making,   // its call is being read
    held,     // held back until kvc_queue_submit
    waiting,  // for those before it on its sequence
    ready,
    parked,  // ran into KVC_ERR_FULL, waits for room
    running, // or being ended without: in no list of a state
    finished
  };
  static constexpr size_t room_bytes = 832;

  Link of_queue, of_state, of_line;
  Queue *queue = nullptr;
  Work *work = nullptr;
  Sequence *seq = nullptr;  // null: not on one
  base::Token seq_token;
  State state = State::making;
  bool cancelled = false;      // asked for while it ran
  bool wants_room = false;     // ran into KVC_ERR_FULL: counted among those who wait for room
  uint64_t room_seen = 0;      // the count of releases before the last run
  uint64_t deadline_ns = UINT64_MAX;
  std::chrono::steady_clock::time_point begun;
  kvc_result result;
  Copies copies;
  alignas(16) std::byte room[room_bytes];

  /// Before it is run again: a result is of one run alone.
  void begin_again() {
    const auto [size, operation, user] = std::tuple(result.size, result.operation, result.user);
    result = kvc_result{};
    result.size = size, result.operation = operation, result.user = user;
  }
};

template <Link Task::*link>
class TaskList {
 public:
  Task *front() const { return first_; }
  bool empty() const { return !first_; }
  static Task *next(const Task *task) { return (task->*link).next; }
  void push_back(Task *task) {
    task->*link = {nullptr, last_};
    (last_ ? (last_->*link).next : first_) = task;
    last_ = task;
  }
  void remove(Task *task) {
    const Link at = task->*link;
    (at.before ? (at.before->*link).next : first_) = at.next;
    (at.next ? (at.next->*link).before : last_) = at.before;
  }
  Task *pop_front() {
    Task *task = first_;
    if (task) remove(task);
    return task;
  }

 private:
  Task *first_ = nullptr, *last_ = nullptr;
};

using TaskBlock = std::array<Task, 32>;

}  // namespace kvc::store
