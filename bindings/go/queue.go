package kvc

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// Queue runs calls that do not block: each method starts one and returns its [Call].  A goroutine waits for the queue's descriptor and tells the
// calls; of a store opened with [OpenHostDriven] there is none, and Drain does the work.  Any goroutine, any time.
type Queue struct {
	handle
	*pump
}

// pump is the part of a queue that a goroutine may hold without holding the queue.
type pump struct {
	token   uintptr
	gate    *gate
	holding atomic.Bool
	file    *os.File
	events  chan struct{}
	stopped chan struct{}
	once    sync.Once

	mu     sync.Mutex // the calls in flight
	calls  map[uint64]*Call
	next   uint64
	closed bool

	drain   sync.Mutex  // what is lent until the next drain: never held while C waits for long
	results *[64]Result // of its own, as cgo looks at whole objects
	event   *[64]cEvent
}

// slice is how long one wait in C lasts: what closes waits no longer for it.
const slice = 20 * time.Millisecond

// Queue makes a queue; the zero QueueOptions are the defaults.
func (s *Store) Queue(options QueueOptions) (*Queue, error) { return s.newQueue(options, queueKind) }

func (s *Store) newQueue(options QueueOptions, kind *kind) (*Queue, error) {
	options.size = uint32(unsafe.Sizeof(options))
	q := &Queue{pump: &pump{gate: s.gate, calls: map[uint64]*Call{}, events: make(chan struct{}, 1), stopped: make(chan struct{}),
		results: new([64]Result), event: new([64]cEvent)}}
	token := new(uintptr)
	err := s.call(func(e *cError) int32 {
		status := raw.Kvc_queue_create(token, s.token, unsafe.Pointer(&options), unsafe.Pointer(e))
		if Status(status) == OK { // inside of the gate, so that a close knows of it
			q.pump.token = *token
			s.gate.mu.Lock()
			s.gate.pumps[q.pump] = struct{}{}
			s.gate.mu.Unlock()
		}
		return status
	})
	if err != nil {
		return nil, err
	}
	hold(q, &q.handle, s.gate, s, kind, *token, q.pump.stop)
	if s.hostDriven {
		close(q.stopped)
		return q, nil
	}
	if err := q.listen(); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// listen has the runtime poll a copy of the descriptor: it closes what it polls, and the queue's own is lent.
func (q *Queue) listen() error {
	fd, err := q.Fd()
	if err != nil {
		close(q.stopped)
		return err
	}
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		close(q.stopped)
		return &Error{Status: ErrIO, Errno: errno, Message: "the queue's descriptor could not be copied: " + errno.Error()}
	}
	q.file = os.NewFile(copied, "kvc queue")
	go q.pump.run()
	return nil
}

func (p *pump) run() {
	defer close(p.stopped)
	conn, err := p.file.SyscallConn()
	for err == nil {
		var failed error
		// The runtime hears of changes: of results that begin to wait, and of events.  Whoever waits must have taken all results after it began to listen.
		err = conn.Read(func(uintptr) bool {
			select {
			case p.events <- struct{}{}:
			default:
			}
			var taken int
			taken, failed = p.take(0)
			return taken > 0 || failed != nil
		})
		if failed != nil && p.isClosed() {
			return
		}
		if failed != nil { // a close that may not come to be
			time.Sleep(time.Millisecond)
		}
	}
}

// take tells calls of their results until there are none, and says how many there were.
func (p *pump) take(wait time.Duration) (int, error) {
	p.drain.Lock()
	defer p.drain.Unlock()
	for total := 0; ; wait = 0 {
		if err := p.gate.enter(); err != nil {
			return total, err
		}
		count, err := p.takeSome(wait)
		p.gate.leave()
		if total += count; count == 0 || err != nil {
			return total, err
		}
	}
}

// takeSome is one drain, by whoever may call C now.
func (p *pump) takeSome(wait time.Duration) (int, error) {
	p.results[0] = Result{size: uint32(unsafe.Sizeof(p.results[0]))}
	count := new(uint64)
	err := checked(func(e *cError) int32 {
		return raw.Kvc_queue_drain(unsafe.Pointer(p.results), uint64(len(p.results)), count, p.token, uint64(wait/time.Microsecond), unsafe.Pointer(e))
	})
	for i := range p.results[:*count] {
		p.finish(&p.results[i])
	}
	return int(*count), err
}

func (p *pump) finish(r *Result) {
	p.mu.Lock()
	call := p.calls[r.user]
	delete(p.calls, r.user)
	p.mu.Unlock()
	if call != nil {
		call.finish(r)
	}
}

// start makes a queued call of what was prepared; the caller unpins where that fails.
func (p *pump) start(q *Queue, l *lent, call invoke) (*Call, error) {
	c := &Call{lent: l, queue: q, done: make(chan struct{})}
	if err := p.gate.enter(); err != nil {
		return nil, err
	}
	defer p.gate.leave()
	p.mu.Lock() // until it is started: its result may come at once, and the queue may be closed
	defer p.mu.Unlock()
	if p.closed {
		return nil, refused(ErrStale, "the queue was closed")
	}
	p.next++
	l.call.user, l.call.queue, l.call.flags = p.next, p.token, 0
	if p.holding.Load() {
		l.call.flags = callMore
	}
	if Status(call(l, nil, nil, unsafe.Pointer(&l.call), unsafe.Pointer(&l.err))) != OK {
		return nil, l.failed()
	}
	p.calls[p.next] = c
	return c, nil
}

func (q *Queue) start(l *lent, call invoke) (*Call, error) { return q.pump.start(q, l, call) }

// begin starts a call of an object of this store, or says why not.
func (q *Queue) begin(l *lent, call invoke, err error) (*Call, error) {
	if err != nil {
		return nil, err
	}
	if l.store != q.store {
		return nil, l.refuse(refused(ErrMisuse, "the queue is of another store"))
	}
	started, err := q.start(l, call)
	if err != nil {
		return nil, l.refuse(err)
	}
	return started, nil
}

// finishAll asks what is in flight to stop and tells every call what it came to.  By whoever may call C now, and no call starts.
func (p *pump) finishAll() {
	p.mu.Lock()
	p.closed = true
	var users []uint64
	for user := range p.calls {
		users = append(users, user)
	}
	p.mu.Unlock()
	for _, user := range users {
		raw.Kvc_queue_cancel(p.token, user, nil)
	}
	p.drain.Lock()
	defer p.drain.Unlock()
	for p.inFlight() > 0 {
		if _, err := p.takeSome(slice); err != nil {
			return
		}
	}
}

func (p *pump) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *pump) inFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// stop ends the goroutine, and what still waits of a queue that was released without a Close.
func (p *pump) stop() {
	p.once.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		if p.file != nil {
			p.file.Close()
		}
		<-p.stopped
		p.gate.mu.Lock()
		delete(p.gate.pumps, p)
		p.gate.mu.Unlock()
		p.drain.Lock()
		defer p.drain.Unlock()
		p.mu.Lock()
		left := p.calls
		p.calls = map[uint64]*Call{}
		p.mu.Unlock()
		for user, call := range left {
			r := Result{Status: ErrCancelled, user: user}
			copy(r.message[:], "the queue was closed")
			call.finish(&r)
		}
	})
}

// Close asks what is in flight to stop and returns when every call was told what it came to: no lent memory is in use any more.
func (q *Queue) Close() error {
	if q == nil {
		return nil
	}
	defer runtime.KeepAlive(q)
	if q.store == nil {
		return errNone
	}
	if err := q.gate.enterToRelease(); err != nil {
		q.pump.stop()
		return err
	}
	q.finishAll()
	q.drain.Lock() // events that somebody copies at this moment
	err := checked(func(e *cError) int32 { return raw.Kvc_queue_release(q.pump.token, unsafe.Pointer(e)) })
	q.drain.Unlock()
	q.gate.leave()
	if err != nil {
		return err
	}
	q.cleanup.Stop()
	q.pump.stop()
	return nil
}

// Fd is an eventfd that is readable while results or events wait.  It is the queue's: poll it, do not read it, do not close it.
func (q *Queue) Fd() (int, error) {
	defer runtime.KeepAlive(q)
	fd := new(int32)
	err := q.call(func(e *cError) int32 { return raw.Kvc_queue_fd(fd, q.pump.token, unsafe.Pointer(e)) })
	return int(*fd), err
}

// HoldBack has calls that are started from now on wait for [Queue.Submit], which starts them as one batch; false: start at once again.
func (q *Queue) HoldBack(hold bool) { q.holding.Store(hold) }

// Submit starts every call that is held back; so do a Drain, and a call of the queue that is not held back.
func (q *Queue) Submit() error {
	defer runtime.KeepAlive(q)
	return q.call(func(e *cError) int32 { return raw.Kvc_queue_submit(q.pump.token, unsafe.Pointer(e)) })
}

// Drain tells calls of their results and says how many there were; it waits for the first.  Of a store opened with [OpenHostDriven] it does the
// work too; of others the queue's goroutine drains by itself, and nobody needs to.
func (q *Queue) Drain(wait time.Duration) (int, error) {
	defer runtime.KeepAlive(q)
	if wait < 0 {
		_, err := units("wait", wait, time.Microsecond)
		return 0, err
	}
	for end := time.Now().Add(min(wait, Forever/2)); ; {
		taken, err := q.take(min(slice, max(time.Until(end), 0)))
		if taken > 0 || err != nil || !time.Now().Before(end) {
			return taken, err
		}
	}
}

// Call is one call in a queue.  What it was given as memory is lent until Done is closed.
type Call struct {
	*lent
	queue *Queue // stays while the call is in flight
	done  chan struct{}
	err   *Error
}

func (c *Call) finish(r *Result) {
	c.lent.result = *r
	if r.Status != OK {
		c.err = &Error{Status: r.Status, Retry: r.Retry, Errno: syscall.Errno(r.SystemError), Message: r.Text(), Done: r.Done}
	}
	c.lent.done()
	close(c.done)
}

// Done is closed when the result has come and the memory is free.
func (c *Call) Done() <-chan struct{} { return c.done }

// Wait returns what came of the call.  When the context ends first it asks the call to stop, and returns when its memory is free.
func (c *Call) Wait(ctx context.Context) (Result, error) {
	err := c.wait(ctx)
	return c.lent.result, err
}

func (c *Call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		if c.err != nil {
			return c.err
		}
		return nil
	case <-ctx.Done():
	}
	c.Cancel()
	<-c.done
	if c.err != nil {
		return ended(ctx, c.err)
	}
	return nil
}

// Cancel asks the call to stop.  It delivers its result all the same: ErrCancelled if it had not started, else what it came to.
func (c *Call) Cancel() {
	if c.queue.gate.enterToRelease() == nil {
		raw.Kvc_queue_cancel(c.queue.pump.token, c.lent.call.user, nil)
		c.queue.gate.leave()
	}
	runtime.KeepAlive(c)
}

// Seq is the sequence that a match, an attach or a restore gave, nil of another call; the caller's to close.  After Done.
func (c *Call) Seq() *Seq { return c.lent.seq }

// Lease is the lease that a call gave; the caller's to close.  After Done.
func (c *Call) Lease() *Lease { return c.lent.lease }

// Match says what a match found.  After Done.
func (c *Call) Match() MatchInfo { return c.lent.match }
