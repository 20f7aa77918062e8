/* kvc/view.h - a stored page, lent in place.
 *
 * Not built yet: kvc_view_acquire is KVC_ERR_UNSUPPORTED.
 *
 *   expected failures   acquire: GONE, UNSUPPORTED, BUSY. */
#ifndef KVC_VIEW_H
#define KVC_VIEW_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of kvc_view_acquire. */
enum { KVC_VIEW_FRAME = 1 /**< the stored bytes as KVC_U8: the 512 header bytes in k, the sections in v */ };

/** Lends the page of one layer that holds `token`, in place.  The page stays, unchanged, until release: a view has no deadline, only the
 * end of the process ends it.  A cold page is brought to RAM first.  Reading it after release is the host's bug and no longer checked.
 * @param out   given: the view, ended by kvc_view_release; NULL on failure
 * @param rows  borrowed: filled with the page's tokens, strides and dtype, ready for DLPack; its k.data and v.data are lent to the host
 *              until release and must not be written
 * @param seq   borrowed: the sequence
 * @param layer which layer, of the whole model
 * @param token any position in the page
 * @param flags KVC_VIEW_*
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: no longer held.  UNSUPPORTED: not exact (without FRAME), or not mappable (another machine).  BUSY: view_max
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_view_acquire(kvc_view **out, kvc_rows *rows, const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags,
                                    kvc_error *error);

/** Ends a view; its memory may be reused at once.
 * @param view  given back: the view; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  STALE: released before
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_view_release(kvc_view *view, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
