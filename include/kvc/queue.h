/* kvc/queue.h - calls that do not block: one queue, one file descriptor, exactly one result a call.
 *
 * Every call that takes a kvc_call runs in a queue when call.queue is set; its prototype and its meaning stay the same (see kvc_call for
 * who owns what until the result is drained).  Poll the descriptor, drain, repeat.  A `kvc_result *` of such a call is left alone: the
 * result comes in the queue.
 *
 *   Order      queued calls on one sequence run one at a time, in the order they were made, from whichever queue; others side by side.  A
 *              call that blocks on that sequence waits for them, up to its timeout (TIMEOUT).  kvc_seq_release and kvc_scope_release do
 *              not wait: the handle is stale at once, calls that were made run on and deliver.
 *   Held back  a call with KVC_CALL_MORE starts with kvc_queue_submit, with kvc_queue_drain, with the next call of its queue that has not
 *              the flag, or when a call on its sequence has to wait for it.
 *   Deadline   a call that has not started by its timeout delivers TIMEOUT; one that has runs to its end.  Deadlines are as fine as the
 *              system's tick, some milliseconds, while a thread of kvc is idle.  While all are at work, and on a host-driven store, they are
 *              looked at when a call ends, by every kvc_queue_drain (one that waits looks again within 50 ms) and by kvc_store_step.
 *   In flight  from the call until its result is drained: kvc_queue_options.depth counts those.
 *   Threads    of kvc, kvc_store_options.worker_count of them, from the first queue of a store on until kvc_close; they take no signals.
 *              With KVC_OPEN_HOST_DRIVEN there are none: kvc_queue_drain, kvc_store_step and calls that wait do the work, and the
 *              descriptor tells of results and events, not of work: a loop that only polls sleeps for ever.
 *
 * A BATCH - many gathers started as one, their results taken as they come; returns how many failed or were not started
 *
 *     static size_t gather_all(kvc_queue *queue, kvc_seq *const *seqs, const kvc_rows *rows, size_t n, kvc_error *error) {
 *       kvc_result results[16];
 *       struct pollfd ready;
 *       kvc_call call;
 *       size_t i, count, started, failed = 0;
 *       KVC_INIT(&results[0]);  // its size is that of all
 *       KVC_INIT(&call);
 *       call.queue = queue, call.flags = KVC_CALL_MORE;
 *       for (started = 0; started < n; started++) {
 *         call.user = started;
 *         if (kvc_gather(NULL, seqs[started], &rows[started], 1, &call, error) != KVC_OK) break;  // BUSY: as many as the queue takes
 *       }
 *       failed = n - started;
 *       memset(&ready, 0, sizeof ready);
 *       ready.events = POLLIN;
 *       if (kvc_queue_submit(queue, error) != KVC_OK || kvc_queue_fd(&ready.fd, queue, error) != KVC_OK) return n;
 *       while (started > 0) {  // until then the arrays are lent
 *         poll(&ready, 1, -1);  // or in the host's own loop, beside its other descriptors
 *         if (kvc_queue_drain(results, 16, &count, queue, 0, error) != KVC_OK) return n;
 *         for (i = 0; i < count; i++) failed += results[i].status != KVC_OK;  // of the call results[i].user; .message says why
 *         started -= count;
 *       }
 *       return failed;
 *     }
 *
 *   expected failures   create: FULL.   a queued call: BUSY (depth, description_bytes).   cancel: NOT_FOUND. */
#ifndef KVC_QUEUE_H
#define KVC_QUEUE_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Limits of a queue. */
typedef struct kvc_queue_options {
  uint32_t size;              /**< sizeof(kvc_queue_options), by KVC_INIT */
  uint32_t flags;             /**< 0 */
  uint32_t depth,             /**< calls in flight; 0: 256.  Over it: BUSY, nothing started */
      reserved;               /**< 0 */
  uint64_t description_bytes; /**< room for copies of kvc_rows, lists, block tables and keys; 0: 1 MiB.  Over it: BUSY, nothing started */
} kvc_queue_options;

/** Makes a queue.
 * @param out     given: the queue, ended by kvc_queue_release; NULL on failure
 * @param store   borrowed: the store whose calls it takes
 * @param options borrowed: limits; NULL: all defaults
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  FULL: queue_max.  IO: no descriptor left.  NO_MEMORY: no thread could be started
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_create(kvc_queue **out, kvc_store *store, const kvc_queue_options *options, kvc_error *error);

/** An eventfd that is readable while results or events wait.  Poll it, do not read it, do not close it.  Who polls edges hears when results begin to
 * wait, and when events do: take all of a kind before waiting for more of it.
 * @param fd    borrowed: set to the descriptor, which is lent to the host until the queue is released
 * @param queue borrowed: the queue
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_fd(int *fd, const kvc_queue *queue, kvc_error *error);

/** Starts every call held back by KVC_CALL_MORE, as one batch.  kvc_queue_drain does so too.
 * @param queue borrowed: the queue
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK, also when none was held back
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_submit(kvc_queue *queue, kvc_error *error);

/** Asks every call with this `user` to stop; each still delivers its one result: CANCELLED if it had not started, else what it came to.
 * @param queue borrowed: the queue
 * @param user  kvc_call.user of the calls
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: none in flight
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_cancel(kvc_queue *queue, uint64_t user, kvc_error *error);

/** Starts what was held back and takes results, in the order in which the calls ended.  On a store opened with KVC_OPEN_HOST_DRIVEN it does
 * the work itself, until the results fill the array or nothing is left to do.  Several threads may drain: each result goes to one of them.
 * @param results         borrowed: filled; KVC_INIT the first element, its size is the array's stride
 * @param result_capacity elements of `results`
 * @param result_count    borrowed: set to the number filled
 * @param queue           borrowed: the queue
 * @param timeout_us      how long to wait for the first, microseconds; 0: not at all
 * @param error           borrowed: why it failed; NULL: not wanted
 * @return KVC_OK, also with no result (*result_count is 0).  STALE: the queue was released, also by another thread meanwhile
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_drain(kvc_result *results, size_t result_capacity, size_t *result_count, kvc_queue *queue, uint64_t timeout_us,
                                   kvc_error *error);

/** Cancels what is in flight, waits until no lent memory is in use, drops undrained results and releases what they gave.
 * @param queue given back: the queue; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_queue_release(kvc_queue *queue, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
