package kvc

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
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
	mu      sync.Mutex
	calls   map[uint64]*Call
	next    uint64
	closed  bool
	file    *os.File
	events  chan struct{}
	stopped chan struct{}
	drain   sync.Mutex
	results *[64]Result // of its own, as cgo looks at whole objects
	event   *[64]cEvent
}

// Queue makes a queue; the zero QueueOptions are the defaults.
func (s *Store) Queue(options QueueOptions) (*Queue, error) { return s.newQueue(options, queueKind) }

func (s *Store) newQueue(options QueueOptions, kind *kind) (*Queue, error) {
	options.size = uint32(unsafe.Sizeof(options))
	q := &Queue{pump: &pump{gate: s.gate, calls: map[uint64]*Call{}, events: make(chan struct{}, 1), stopped: make(chan struct{}),
		results: new([64]Result), event: new([64]cEvent)}}
	var token uintptr
	if err := s.call(func(e *cError) int32 {
		return raw.Kvc_queue_create(&token, s.token, unsafe.Pointer(&options), unsafe.Pointer(e))
	}); err != nil {
		return nil, err
	}
	q.pump.token = token
	hold(q, &q.handle, s, kind, token, q.pump.stop)
	if s.hostDriven {
		close(q.stopped)
	} else if err := q.listen(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	s.gate.queues.Lock()
	s.gate.pumps[q.pump] = struct{}{}
	s.gate.queues.Unlock()
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
		// The runtime hears of a change, not of a state: whoever waits must have taken everything after it began to listen.
		err = conn.Read(func(uintptr) bool {
			select {
			case p.events <- struct{}{}:
			default:
			}
			taken, failed := p.take(0)
			return taken > 0 || failed != nil
		})
		if p.gone() {
			return
		}
	}
}

func (p *pump) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// take tells calls of their results until there are none, and says how many there were.
func (p *pump) take(wait time.Duration) (int, error) {
	p.drain.Lock()
	defer p.drain.Unlock()
	timeout, err := units("timeout", wait, time.Microsecond)
	for total := 0; err == nil; timeout = 0 {
		if err = p.gate.enter(); err != nil {
			break
		}
		p.results[0] = Result{size: uint32(unsafe.Sizeof(p.results[0]))}
		var count uint64
		err = checked(func(e *cError) int32 {
			return raw.Kvc_queue_drain(unsafe.Pointer(p.results), uint64(len(p.results)), &count, p.token, timeout, unsafe.Pointer(e))
		})
		p.gate.RUnlock()
		for i := range p.results[:count] {
			p.finish(&p.results[i])
		}
		if total += int(count); count == 0 {
			return total, err
		}
	}
	return 0, err
}

func (p *pump) finish(r *Result) {
	p.mu.Lock()
	call := p.calls[r.user]
	delete(p.calls, r.user)
	p.mu.Unlock()
	call.finish(r)
}

// start makes a queued call of what was prepared.
func (p *pump) start(l *lent, call invoke) (*Call, error) {
	c := &Call{lent: l, pump: p, done: make(chan struct{})}
	if err := p.gate.enter(); err != nil {
		l.pins.Unpin()
		return nil, err
	}
	defer p.gate.RUnlock()
	p.mu.Lock() // until it is started: its result may come at once, and the queue may be closed
	defer p.mu.Unlock()
	p.next++
	l.call.user, l.call.queue = p.next, p.token
	if Status(call(l, nil, nil, unsafe.Pointer(&l.call), unsafe.Pointer(&l.err))) != OK {
		l.pins.Unpin()
		return nil, l.failed()
	}
	p.calls[p.next] = c
	return c, nil
}

// stop ends the goroutine and what still waits: the queue is no more.
func (p *pump) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if p.file != nil {
		p.file.Close()
	}
	<-p.stopped
	p.gate.queues.Lock()
	delete(p.gate.pumps, p)
	p.gate.queues.Unlock()
	p.mu.Lock()
	left := p.calls
	p.calls = map[uint64]*Call{}
	p.mu.Unlock()
	for _, call := range left {
		r := Result{Status: ErrCancelled}
		copy(r.message[:], "the queue was closed")
		call.finish(&r)
	}
}

// Close asks what is in flight to stop and returns when no lent memory is in use any more.
func (q *Queue) Close() error {
	q.take(0) // what has ended is told, not dropped
	if err := q.close(); err != nil {
		return err
	}
	q.pump.stop()
	return nil
}

// Fd is an eventfd that is readable while results or events wait.  It is the queue's: poll it, do not read it, do not close it.
func (q *Queue) Fd() (int, error) {
	fd := int32(-1)
	err := q.call(func(e *cError) int32 { return raw.Kvc_queue_fd(&fd, q.token(), unsafe.Pointer(e)) })
	runtime.KeepAlive(q)
	return int(fd), err
}

func (q *Queue) token() uintptr { return q.handle.token }

// Submit starts every call that [Call.More] held back.
func (q *Queue) Submit() error {
	defer runtime.KeepAlive(q)
	return q.call(func(e *cError) int32 { return raw.Kvc_queue_submit(q.token(), unsafe.Pointer(e)) })
}

// Drain tells calls of their results and says how many there were; it waits for the first.  Of a store opened with [OpenHostDriven] it does the
// work too; of others the queue's goroutine drains by itself, and nobody needs to.
func (q *Queue) Drain(wait time.Duration) (int, error) {
	defer runtime.KeepAlive(q)
	return q.take(wait)
}

// Call is one call in a queue.  What it was given as memory is lent until Done is closed.
type Call struct {
	*lent
	pump *pump
	done chan struct{}
	err  *Error
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
	case <-ctx.Done():
		c.Cancel()
		<-c.done
	}
	if c.err != nil {
		return ended(ctx, c.err)
	}
	return nil
}

// Cancel asks the call to stop.  It delivers its result all the same: ErrCancelled if it had not started, else what it came to.
func (c *Call) Cancel() {
	if c.pump.gate.enter() == nil {
		raw.Kvc_queue_cancel(c.pump.token, c.lent.call.user, nil)
		c.pump.gate.RUnlock()
	}
}

// Seq is the sequence that a match, an attach or a restore gave, nil of another call; the caller's to close.  After Done.
func (c *Call) Seq() *Seq { return c.lent.seq }

// Lease is the lease that a call gave; the caller's to close.  After Done.
func (c *Call) Lease() *Lease { return c.lent.lease }

// Match says what a match found.  After Done.
func (c *Call) Match() MatchInfo { return c.lent.match }
