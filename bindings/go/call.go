package kvc

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// lent is what one call that may wait has in C's hands, and what comes back.
type lent struct {
	*inC
	pins  runtime.Pinner
	after func() // makes the caller's of what the library wrote, before anybody is told
	seq   *Seq
	lease *Lease
}

// inC is the part that C sees, in an object of its own: cgo looks at the whole object behind a pointer, and this one has no pointers of Go.
type inC struct {
	call   cCall
	err    cError
	result Result
	out    uintptr // the handle that a blocking call gives
	match  MatchInfo
	verify VerifyInfo
}

// invoke makes the C call: with the results where it is to put them, nil where it is queued.
type invoke func(l *lent, out *uintptr, result, call, err unsafe.Pointer) int32

func newLent() *lent {
	l := &lent{inC: new(inC)}
	l.call.size = uint32(unsafe.Sizeof(l.call))
	l.err.size = uint32(unsafe.Sizeof(l.err))
	l.result.size = uint32(unsafe.Sizeof(l.result))
	l.match.size = uint32(unsafe.Sizeof(l.match))
	l.verify.size = uint32(unsafe.Sizeof(l.verify))
	l.pins.Pin(l.inC)
	return l
}

func (l *lent) done() {
	if l.after != nil {
		l.after()
	}
	l.pins.Unpin()
}

func (l *lent) failed() *Error {
	err := newError(&l.err)
	err.Done = l.result.Done
	return err
}

// timeout gives the call the context's deadline.
func (l *lent) timeout(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok {
		l.call.timeoutUs = uint64(max(time.Until(deadline)/time.Microsecond, 1))
	}
}

// run makes a call that may wait: here, or in the store's queue where the context may end.
func (s *Store) run(ctx context.Context, l *lent, call invoke) error {
	if ctx.Err() != nil {
		l.pins.Unpin()
		return ended(ctx, &Error{Status: ErrCancelled, Message: "the context had ended before the call"})
	}
	if ctx.Done() != nil && !s.hostDriven {
		queue, err := s.ownQueue()
		if err != nil {
			l.pins.Unpin()
			return err
		}
		l.timeout(ctx)
		started, err := queue.start(l, call)
		if err != nil {
			return err
		}
		return started.wait(ctx)
	}
	defer l.done()
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.RUnlock()
	var options unsafe.Pointer
	if ctx.Done() != nil {
		l.timeout(ctx)
		options = unsafe.Pointer(&l.call)
	}
	if Status(call(l, &l.out, unsafe.Pointer(&l.result), options, unsafe.Pointer(&l.err))) != OK {
		return ended(ctx, l.failed())
	}
	return nil
}

// Result is what came of a call.  Text returns its message, empty unless it failed.
func (r *Result) Text() string { return text(r.message[:]) }
