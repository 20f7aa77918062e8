/* kvc/error.h - statuses, the error struct, and what this library is.
 *
 * Every call returns a kvc_status: 0, or one negative number that never changes its meaning.  The family, -status / 10, is what a host
 * branches on; the single status is for the cases that it handles apart:
 *
 *     1 argument   a value is wrong                  fix the call
 *     2 misuse     a handle or an order is wrong     fix the host
 *     3 data       it is not there (any more)        recompute, or do without
 *     4 room       a limit is reached                release something, wait, or do without
 *     5 reach      not now, not from here            later, elsewhere, or recompute
 *     6 ability    never, with this build or store   take another way
 *     7 system     the system or a driver failed     look at error->system_error
 *     9 kvc        a bug of kvc                      report it
 *
 * Families 1 and 2, and KVC_ERR_INTERNAL, may come from any call and are not listed with it again; nor is KVC_ERR_NO_MEMORY, which any
 * call but a close or a release may give (match, append, fork, put, kvc_scope_create...) when the system refuses memory for what kvc keeps
 * beside the rows: the call, or the item of a batch, has changed nothing and may succeed later.  A cache that fails is a cache that
 * misses: a host may treat every failure of match and gather as "compute it". */
#ifndef KVC_ERROR_H
#define KVC_ERROR_H

#include <kvc/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 0 or negative.  Values are pinned and never reused. */
typedef int32_t kvc_status;

/** The statuses.  Each call lists what a host should expect beside families 1 and 2, KVC_ERR_NO_MEMORY and KVC_ERR_INTERNAL. */
enum {
  KVC_OK = 0, /**< it is done, wholly */

  /* 1 argument: a value is wrong; the message names it and the rule */
  KVC_ERR_ARGUMENT = -10, /**< zero, NULL, unknown constant, overflow, overlapping elements */
  KVC_ERR_RANGE = -11,    /**< layer, head, position past what there is; a gap in an append */
  KVC_ERR_SHAPE = -12,    /**< geometry, dtype or layout does not fit the scope's shape */
  KVC_ERR_TOO_NEW = -13,  /**< a struct or flag of a later header: bytes past what this library knows are not zero */

  /* 2 misuse: the host's bug */
  KVC_ERR_MISUSE = -20, /**< foreign handle, two writers, a call its object cannot take */
  KVC_ERR_STALE = -21,  /**< released handle, closed store */
  KVC_ERR_FORKED = -22, /**< handle of the parent process */

  /* 3 data: recompute or do without */
  KVC_ERR_NOT_FOUND = -30,   /**< no such name, key, node, file */
  KVC_ERR_GONE = -31,        /**< rows no longer held: evicted after a lapse, outside a window, failed their check */
  KVC_ERR_EXISTS = -32,      /**< name taken by other content */
  KVC_ERR_CORRUPT = -33,     /**< a file or directory is damaged; nothing of it was used */
  KVC_ERR_NO_SNAPSHOT = -34, /**< a state layer holds no snapshot at that position */

  /* 4 room: free some, wait, or do without */
  KVC_ERR_FULL = -40,      /**< a limit of kvc_open, of the scope's quota, of the budget's floors.  KVC_RETRY_LATER; KVC_RETRY_NEVER when
                                the call alone needs more than the limit */
  KVC_ERR_NO_MEMORY = -41, /**< the system refused memory */
  KVC_ERR_BUSY = -42,      /**< held: views at close, directory locked, queue full */
  KVC_ERR_READ_ONLY = -43, /**< the tier stopped taking writes (full or failing disk) */

  /* 5 reach: try later, elsewhere, or recompute */
  KVC_ERR_UNAVAILABLE = -50, /**< node, device or driver not there now */
  KVC_ERR_TIMEOUT = -51,     /**< the call's deadline passed */
  KVC_ERR_CANCELLED = -52,   /**< kvc_queue_cancel or kvc_close */
  KVC_ERR_DENIED = -53,      /**< wrong key or tenant */

  /* 6 ability: will not work here, ever */
  KVC_ERR_UNSUPPORTED = -60, /**< this backend, build, format or memory kind cannot; the call changed nothing */
  KVC_ERR_VERSION = -61,     /**< file, directory or peer of another version */

  /* 7 system */
  KVC_ERR_IO = -70,     /**< error->system_error is the errno */
  KVC_ERR_DEVICE = -71, /**< error->system_error is the driver's code */

  /* 9 a bug of kvc */
  KVC_ERR_INTERNAL = -90 /**< a check inside the library failed; nothing stored is in doubt, please report the message */
};

/** What is worth doing after a failure (kvc_error.retry, kvc_result.retry). */
enum {
  KVC_RETRY_NEVER = 0,    /**< the same call will fail again */
  KVC_RETRY_NOW = 1,      /**< the same call may succeed at once */
  KVC_RETRY_LATER = 2,    /**< the same call may succeed after a pause or after something was released */
  KVC_RETRY_RECOMPUTE = 3 /**< the data is gone: compute it and append it */
};

/** Why a call failed.  Caller-owned, reusable, last parameter of every call, may be NULL there: it is borrowed, so one on the stack will
 * do. KVC_INIT it once: with size 0 nothing is written, and what the stack
 * held there is taken for a size.  It is written on failure only: look at the returned status
 * first, a success leaves what an earlier failure wrote. */
typedef struct kvc_error {
  uint32_t size;        /**< sizeof(kvc_error), by KVC_INIT */
  kvc_status status;    /**< what the call returned */
  uint32_t retry;       /**< KVC_RETRY_* */
  int32_t system_error; /**< 0, errno, or a driver's code */
  char message[240];    /**< one line, UTF-8, terminated: the value and the rule it broke.  For people: its wording may change */
} kvc_error;

/** Names a status.  Static and total: never NULL, also for numbers that are no status ("KVC_STATUS_UNKNOWN").
 * @param status any number
 * @return the name of the constant, as "KVC_ERR_FULL"; valid for as long as the library is loaded
 * @since 0.1.0 */
KVC_API const char *kvc_status_name(kvc_status status);

/** The version of the library that is loaded, to be compared with KVC_VERSION_*.
 * @return major << 16 | minor << 8 | patch
 * @since 0.1.0 */
KVC_API uint32_t kvc_version(void);

/** Abilities that a build may lack. */
enum {
  KVC_FEATURE_CUDA = 1,   /**< device memory */
  KVC_FEATURE_FABRIC = 2, /**< kvc: stores, over libfabric */
  KVC_FEATURE_URING = 4,  /**< file: stores through io_uring (without it: plain system calls, the same contract) */
  KVC_FEATURE_ETCD = 8    /**< clusters whose map is in etcd */
};

/** What this build can do.  Whether a driver or device answers on this machine is in kvc_store_info.features.
 * @return KVC_FEATURE_* bits
 * @since 0.1.0 */
KVC_API uint64_t kvc_features(void);

#ifdef __cplusplus
}
#endif
#endif
