package kvc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"kvc/internal/raw"
)

// gate lets calls into a store until it closes, and the close in when they are out: kvc_close must be alone.
type gate struct {
	sync.RWMutex
	closed bool

	queues sync.Mutex
	pumps  map[*pump]struct{}
}

func (g *gate) enter() error {
	g.RLock()
	if g.closed {
		g.RUnlock()
		return errClosed
	}
	return nil
}

// kind is what handles of one sort have in common.
type kind struct {
	name    string
	release func(token uintptr, err unsafe.Pointer) int32
}

var (
	scopeKind  = &kind{"scope", raw.Kvc_scope_release}
	seqKind    = &kind{"sequence", raw.Kvc_seq_release}
	leaseKind  = &kind{"lease", raw.Kvc_lease_release}
	queueKind  = &kind{"queue", raw.Kvc_queue_release}
	regionKind = &kind{"region", raw.Kvc_region_release}
	viewKind   = &kind{"view", raw.Kvc_view_release}
	storeKind  = &kind{"store", raw.Kvc_close}
	ownKind    = &kind{"", raw.Kvc_queue_release} // a store's own queue: nobody forgot it
)

// handle is a token of the library with what has to live as long: every object has one.
type handle struct {
	store   *Store
	token   uintptr
	kind    *kind
	cleanup runtime.Cleanup
}

type forgotten struct {
	gate  *gate
	token uintptr
	kind  *kind
	after func()
}

// hold makes owner the holder of a token: what it forgets to close is released when it is collected, then `after` runs.  A view's memory may be
// read still, so that it is only told of.
func hold[T any](owner *T, h *handle, store *Store, kind *kind, token uintptr, after func()) *T {
	*h = handle{store: store, token: token, kind: kind}
	h.cleanup = runtime.AddCleanup(owner, forget, forgotten{store.gate, token, kind, after})
	return owner
}

func forget(f forgotten) {
	if report := leakReport.Load(); report != nil && f.kind.name != "" {
		(*report)(f.kind.name)
	}
	if f.kind == viewKind {
		return
	}
	if f.gate.enter() == nil {
		f.kind.release(f.token, nil)
		f.gate.RUnlock()
	}
	if f.after != nil {
		f.after()
	}
}

var leakReport atomic.Pointer[func(what string)]

// ReportLeaks has report called, on a goroutine of the runtime's, with the kind of each object that is collected without a Close; nil: no longer.
func ReportLeaks(report func(what string)) {
	if report == nil {
		leakReport.Store(nil)
		return
	}
	leakReport.Store(&report)
}

// close releases the token.  What is busy stays, and is not forgotten.
func (h *handle) close() error {
	err := h.call(func(e *cError) int32 { return h.kind.release(h.token, unsafe.Pointer(e)) })
	if err == nil {
		h.cleanup.Stop()
	}
	return err
}

// call runs what does not wait, beside other calls of the store.
func (h *handle) call(run func(*cError) int32) error { return h.store.call(run) }

var errorPool = sync.Pool{New: func() any { return new(cError) }}

func (s *Store) call(run func(*cError) int32) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.RUnlock()
	return checked(run)
}

// checked runs a call that has no store.
func checked(run func(*cError) int32) error {
	e := errorPool.Get().(*cError)
	defer errorPool.Put(e)
	e.size = uint32(unsafe.Sizeof(*e))
	if Status(run(e)) == OK {
		return nil
	}
	return newError(e)
}

// oneGet is what the get of one object writes.
type oneGet struct {
	size uint64
	err  cError
}

var onePool = sync.Pool{New: func() any { return new(oneGet) }}
