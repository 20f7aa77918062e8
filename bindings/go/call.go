package kvc

import (
	"context"
	"errors"
	"runtime"
	"time"
	"unsafe"
)

// lent is what one call that may wait has in C's hands, and what comes back.
type lent struct {
	*inC
	store   *Store
	pins    runtime.Pinner
	after   func()       // makes the caller's of what the library wrote, before anybody is told
	refused func(Status) // tells the items of a batch of a call that was not made
	seq     *Seq
	lease   *Lease
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

func newLent(store *Store) *lent {
	l := &lent{inC: new(inC), store: store}
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

// refuse ends a call that was not made.
func (l *lent) refuse(err error) error {
	var failed *Error
	if l.refused != nil && errors.As(err, &failed) {
		l.refused(failed.Status)
	}
	l.pins.Unpin()
	return err
}

func (l *lent) failed() *Error {
	err := newError(&l.err)
	err.Done = l.result.Done
	return err
}

// slack is how much later the library's deadline is than the context's, which ends the call: its error is the context's then.
const slack = 100 * time.Millisecond

// prepare gives the call the context's deadline, some time later, and its trace.
func (l *lent) prepare(ctx context.Context, more time.Duration) {
	if deadline, ok := ctx.Deadline(); ok {
		l.call.timeoutUs = uint64(max((time.Until(deadline)+more)/time.Microsecond, 1))
	}
	if trace, ok := ctx.Value(traceKey{}).([2]uint64); ok {
		l.call.traceHigh, l.call.traceLow = trace[0], trace[1]
	}
}

type traceKey struct{}

// WithTrace has the calls of a context carry a trace id, which is in their spans ([Store.Trace]).
func WithTrace(ctx context.Context, high, low uint64) context.Context {
	return context.WithValue(ctx, traceKey{}, [2]uint64{high, low})
}

// run makes a call that may wait: here, or in the store's queue where the context may end.
func (s *Store) run(ctx context.Context, l *lent, call invoke) error {
	defer runtime.KeepAlive(s)
	made := false
	defer func() {
		if !made { // a panic of the context's
			l.pins.Unpin()
		}
	}()
	if cause := ctx.Err(); cause != nil {
		made = true
		return l.refuse(notBegun(ctx))
	}
	if ctx.Done() != nil && !s.hostDriven {
		l.prepare(ctx, slack)
		made = true
		return s.runQueued(ctx, l, call)
	}
	l.prepare(ctx, 0)
	made = true
	if err := s.gate.enter(); err != nil {
		return l.refuse(err)
	}
	defer l.done()
	defer s.gate.leave()
	if Status(call(l, &l.out, unsafe.Pointer(&l.result), unsafe.Pointer(&l.call), unsafe.Pointer(&l.err))) != OK {
		return ended(ctx, l.failed())
	}
	return nil
}

// perform makes a call that was prepared, or says why it was not.
func perform(ctx context.Context, l *lent, call invoke, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	err = l.store.run(ctx, l, call)
	return l.result, err
}

// runQueued makes it in the store's own queue.  More calls than that takes wait for their turn.
func (s *Store) runQueued(ctx context.Context, l *lent, call invoke) error {
	queue, err := s.ownQueue()
	if err != nil {
		return l.refuse(err)
	}
	defer runtime.KeepAlive(queue)
	for {
		started, err := queue.start(l, call)
		if err == nil {
			return started.wait(ctx)
		}
		var failed *Error
		if !errors.As(err, &failed) || failed.Status != ErrBusy {
			return l.refuse(err)
		}
		select {
		case <-ctx.Done():
			return l.refuse(notBegun(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

func notBegun(ctx context.Context) error {
	status := ErrCancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		status = ErrTimeout
	}
	return ended(ctx, &Error{Status: status, Message: "the context had ended before the call began"})
}

// Text returns the message of a result, empty unless the call failed.
func (r *Result) Text() string { return text(r.message[:]) }
