package kvc

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"kvc/internal/raw"
)

// gate counts the calls that are in a store, and lets its close in when they are out: kvc_close must be alone.
type gate struct {
	state atomic.Int64  // calls inside, and the bits below
	out   chan struct{} // the last call has left a store that closes

	mu     sync.Mutex
	closer sync.Mutex
	pumps  map[*pump]struct{}
	orphan func() // closes a store that was forgotten while regions held it
}

const (
	closing int64 = 1 << 62 // a close waits: releases come in, calls do not
	closed  int64 = 1 << 61 // a close is in, or has been: nothing comes in
)

func newGate() *gate { return &gate{out: make(chan struct{}, 1), pumps: map[*pump]struct{}{}} }

var errClosed = &Error{Status: ErrStale, Message: "the store was closed"}

// enter lets a call in; leave has to follow.
func (g *gate) enter() error { return g.enterUnless(closing | closed) }

// enterToRelease lets in what gives something back, also while a close waits: what it waits for may wait for that.
func (g *gate) enterToRelease() error { return g.enterUnless(closed) }

func (g *gate) enterUnless(bits int64) error {
	for {
		state := g.state.Load()
		if state&bits != 0 {
			return errClosed
		}
		if g.state.CompareAndSwap(state, state+1) {
			return nil
		}
	}
}

func (g *gate) leave() {
	if g.state.Add(-1) == closing {
		select {
		case g.out <- struct{}{}:
		default:
		}
	}
}

func (g *gate) isClosing() bool { return g.state.Load()&(closing|closed) != 0 }

// shut closes the store of a token when every call is out of it.  Where that fails the store is open as before.
func (g *gate) shut(token uintptr) error {
	g.closer.Lock()
	defer g.closer.Unlock()
	if g.state.Load()&closed != 0 {
		return errClosed
	}
	if err := held(token); err != nil { // nobody is disturbed
		return err
	}
	g.state.Or(closing)
	for !g.state.CompareAndSwap(closing, closed) {
		<-g.out
	}
	if held(token) == nil { // what is in flight is asked to stop, and told what it came to
		for _, p := range g.allPumps() {
			p.finishAll()
		}
	}
	if err := checked(func(e *cError) int32 { return raw.Kvc_close(token, unsafe.Pointer(e)) }); err != nil {
		g.state.Store(0)
		return err
	}
	for _, p := range g.allPumps() {
		p.stop()
	}
	return nil
}

func (g *gate) allPumps() []*pump {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*pump
	for p := range g.pumps {
		out = append(out, p)
	}
	return out
}

// held says what keeps a store from closing.
func held(token uintptr) error {
	info := new(StoreInfo)
	info.size = uint32(unsafe.Sizeof(*info))
	if raw.Kvc_store_get_info(unsafe.Pointer(info), token, nil) != int32(OK) || info.ViewCount+info.RegionCount == 0 {
		return nil
	}
	return &Error{Status: ErrBusy, Retry: RetryLater, Message: fmt.Sprintf("%d views and %d regions are held: close them first", info.ViewCount, info.RegionCount)}
}

// kind is what handles of one sort have in common.
type kind struct {
	name    string
	release func(token uintptr, err unsafe.Pointer) int32
}

var (
	storeKind  = &kind{"store", nil}
	scopeKind  = &kind{"scope", raw.Kvc_scope_release}
	seqKind    = &kind{"sequence", raw.Kvc_seq_release}
	leaseKind  = &kind{"lease", raw.Kvc_lease_release}
	queueKind  = &kind{"queue", raw.Kvc_queue_release}
	ownKind    = &kind{"", raw.Kvc_queue_release} // a store's own queue: nobody forgot it
	regionKind = &kind{"region", raw.Kvc_region_release}
	viewKind   = &kind{"view", raw.Kvc_view_release}
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

// hold makes owner the holder of a token: what it forgets to close is released when it is collected, then `after` runs.
func hold[T any](owner *T, h *handle, gate *gate, store *Store, kind *kind, token uintptr, after func()) *T {
	*h = handle{store: store, token: token, kind: kind}
	h.cleanup = runtime.AddCleanup(owner, func(f forgotten) { go f.release() }, forgotten{gate, token, kind, after}) // it may wait, and others' cleanups must not
	return owner
}

// release gives back what nobody holds any more.  A view's memory may be read still, so that it is only told of, and keeps its store.
func (f forgotten) release() {
	if report := leakReport.Load(); report != nil && f.kind.name != "" {
		(*report)(f.kind.name)
	}
	switch f.kind {
	case viewKind:
		return
	case storeKind:
		f.gate.abandon(f.token, f.after)
		return
	}
	if f.gate.enterToRelease() == nil {
		f.kind.release(f.token, nil)
		f.gate.leave()
	}
	if f.after != nil {
		f.after()
	}
	f.gate.retry()
}

// abandon closes a store that nobody holds; while regions of it are held, their release tries again.
func (g *gate) abandon(token uintptr, after func()) {
	try := func() {
		if g.shut(token) == nil {
			after()
		}
	}
	g.mu.Lock()
	g.orphan = try
	g.mu.Unlock()
	try()
}

func (g *gate) retry() {
	g.mu.Lock()
	try := g.orphan
	g.mu.Unlock()
	if try != nil {
		try()
	}
}

var leakReport atomic.Pointer[func(what string)]

// ReportLeaks has report called, on a goroutine of its own, with the kind of each object that is collected without a Close; nil: no longer.
func ReportLeaks(report func(what string)) {
	if report == nil {
		leakReport.Store(nil)
		return
	}
	leakReport.Store(&report)
}

// close releases the token.  What is busy stays, and is not forgotten.
func (h *handle) close() error {
	if h.store == nil {
		return errNone
	}
	if err := h.store.gate.enterToRelease(); err != nil {
		return err
	}
	err := checked(func(e *cError) int32 { return h.kind.release(h.token, unsafe.Pointer(e)) })
	h.store.gate.leave()
	if err == nil {
		h.cleanup.Stop()
	}
	return err
}

// errNone is what the zero value of an object gives.
var errNone = &Error{Status: ErrMisuse, Message: "an object that no call of this package gave"}

// call runs what does not wait, beside other calls of the store.
func (h *handle) call(run func(*cError) int32) error {
	if h.store == nil {
		return errNone
	}
	return h.store.call(run)
}

var errorPool = sync.Pool{New: func() any { return new(cError) }}

func (s *Store) call(run func(*cError) int32) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer runtime.KeepAlive(s)
	defer s.gate.leave()
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
