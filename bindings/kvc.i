/* The one interface file of the bindings: SWIG 4.5.1 reads the public headers as they are.  What differs by language is in
 * <language>/kvc_<language>.i: the typemaps.  Run it with -DSWIGWORDSIZE64, or uint64_t becomes unsigned long long.
 *
 *   swig -python -DSWIGWORDSIZE64 -I../include -Ipython -module native -interface _native -outdir OUT -o OUT/kvc_wrap.c kvc.i
 *   python3 generate    Go's raw layer (swig -go), and from the parse tree (swig -xml) Rust's, the structs of Go, and the table of parity */
%module kvc
%{
#include <kvc/kvc.h>
%}

#if defined(SWIGPYTHON)
%include "stdint.i"
%include "kvc_python.i"
#elif defined(SWIGGO)
%include "stdint.i"
%include "kvc_go.i"
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
#if !defined(SWIGPYTHON) /* no call of these is built yet */
%include <kvc/attend.h>
%include <kvc/cluster.h>
#endif
