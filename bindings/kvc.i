/* The one interface file of the bindings: SWIG 4.5.1 reads the public headers as they are.  What differs by language is in
 * <language>/kvc_<language>.i: the typemaps.  Run it with -DSWIGWORDSIZE64, or uint64_t becomes unsigned long long.
 *
 *   swig -python -DSWIGWORDSIZE64 -I../include -Ipython -module native -interface _native -outdir OUT -o OUT/kvc_wrap.c kvc.i */
%module kvc
%{
#include <kvc/kvc.h>
%}

#if defined(SWIGPYTHON)
%include "stdint.i"
%include "kvc_python.i"
#endif

%include <kvc/export.h>
%include <kvc/error.h>
%include <kvc/types.h>
%include <kvc/store.h>
%include <kvc/seq.h>
%include <kvc/object.h>
%include <kvc/view.h>
%include <kvc/queue.h>
%include <kvc/observe.h>
