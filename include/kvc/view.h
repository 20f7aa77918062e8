/* kvc/view.h - a stored page, lent in place.
 *
 * A host that computes on the processor reads K and V where they lie, without a copy.  A view holds its page as a sequence would, and longer:
 * append, truncate, release, a lapse, eviction, a failed check, the end of scope and sequence leave its bytes as they were.  Who goes on in
 * an open chunk of which a view is held copies it first, so release views of the last tokens before the next append.
 *
 *   expected failures   acquire: RANGE, GONE, NO_SNAPSHOT, UNSUPPORTED, BUSY. */
#ifndef KVC_VIEW_H
#define KVC_VIEW_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of kvc_view_acquire. */
enum { KVC_VIEW_FRAME = 1 /**< the stored bytes as KVC_U8: the 512 header bytes in k, the sections in v */ };

/** Lends the page of one layer that holds `token`, in place; of a state layer the snapshot behind `token`, as one row.  The page stays,
 * unchanged, until release: a view has no deadline, only the end of the process ends it; kvc_close is BUSY until then.  A cold page is brought
 * to RAM first.  Reading it after release is the host's bug and no longer checked.  After fork(2) the memory is the parent's alone.
 * @param out   given: the view, ended by kvc_view_release; NULL on failure
 * @param rows  borrowed: filled with the page's layer, tokens, heads, strides and dtype, ready for DLPack and for kvc_append elsewhere; of
 *              an open page with the tokens that this sequence has in it.  Its k.data and v.data are lent to the host until release and
 *              must not be written.  Every stride is given, in bytes: head_stride is that of a full page.  With KVC_VIEW_FRAME k.data is
 *              512 bytes and v.data the sections, as many as v.bytes says, dtype KVC_U8, no other strides.  Filled on success only
 * @param seq   borrowed: the sequence
 * @param layer which layer, of the whole model
 * @param token any position in the page
 * @param flags KVC_VIEW_*
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: past the layers, or past filled(layer).  GONE: no longer held, or left out of a window layer, whose page is lent
 *         from the first row on that is held.  NO_SNAPSHOT: of a state layer.  UNSUPPORTED: not exact (without FRAME), not sealed (with FRAME), the
 *         heads of the sequence's part came in several slices, or (with FRAME) are not all of one, or not mappable (another machine).  BUSY:
 *         view_max
 * @since 0.1.0 */
KVC_API kvc_status kvc_view_acquire(kvc_view **out, kvc_rows *rows, const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags,
                                    kvc_error *error);

/** Ends a view, in any thread; its memory may be reused at once.
 * @param view  given back: the view; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_view_release(kvc_view *view, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
