/* kvc/export.h - what every other header needs: the export mark, the version of these headers, KVC_INIT and two numbers.
 *
 * The manual page is kvc/kvc.h.  Include that one; each header can also be included alone. */
#ifndef KVC_EXPORT_H
#define KVC_EXPORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h> /* memset, for KVC_INIT */

/** Marks a function that libkvc exports.  Everything without it is hidden, in the shared library and by its version script. */
#if defined(SWIG)
#define KVC_API
#else
#define KVC_API __attribute__((visibility("default")))
#endif

/** The version of these headers; kvc_version() is the version of the library that is loaded.  While the major number is 0, a new minor
 * number may break the ABI (the SONAME stays libkvc.so.0 within one minor number); from 1.0 on only a new major number does. */
#define KVC_VERSION_MAJOR 0
#define KVC_VERSION_MINOR 1 /**< new calls, members, constants */
#define KVC_VERSION_PATCH 0 /**< corrections only */

/** Zeroes a sized struct (one whose first member is `size`) and sets that member.  All-zero means "all defaults", so this is the whole
 * initialisation of options, and the required one of every struct that a call fills.
 * `object` is evaluated several times.  In C99 `kvc_call call = {.size = sizeof call};` does the same; a positional `{sizeof call}` is
 * right too but warns under -Wextra.  In an array passed to a call the first element is enough: its size is the stride of all. */
#define KVC_INIT(object) (memset((object), 0, sizeof *(object)), (void)((object)->size = (uint32_t)sizeof *(object)))

#define KVC_ALL 0xFFFFFFFFFFFFFFFFull     /**< a count or position: to the end, every one */
#define KVC_FOREVER 0xFFFFFFFFFFFFFFFFull /**< a time: no deadline */

#endif
