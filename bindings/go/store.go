package kvc

import (
	"context"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// StoreOptions are limits and defaults of a store; a zero is the default of its member.
type StoreOptions struct {
	Flags        OpenFlags
	MemoryBytes  uint64        // host tier, reserved at once; 0: a quarter of the machine's
	SeqMax       uint32        // sequences at once; 0: 4096
	QueueMax     uint32        // queues at once; 0: 64
	ViewMax      uint32        // views at once; 0: 4096
	WorkerCount  uint32        // threads of kvc, from the first queue on; 0: min(4, cores)
	OpenBytesMax uint64        // chunks not yet sealed, over all sequences; 0: MemoryBytes / 4
	Timeout      time.Duration // default of every call; 0: 30 s
	Lease        time.Duration // default of sequences and leases; 0: 10 s

	// Log has each line, on any thread; it must not call this package or runtime.Goexit, and should not block.  A panic in it is dropped.  What it
	// refers to lives as long as the store: one that refers to the store keeps it until it is closed.
	Log      func(level uint32, line string)
	LogLevel uint32 // 1 errors, 2 warnings, 3 information, 4 debugging; 0: 2
}

// Store is one cache with its limits.  Any goroutine, any time.
type Store struct {
	handle
	gate       *gate
	hostDriven bool
	logger     *logger

	ownMu sync.Mutex
	own   *Queue
}

// logger is what C hands back with each line; it stays where it is until the store is closed.
type logger struct {
	handle cgo.Handle
	pins   runtime.Pinner
}

func (o *StoreOptions) fill(c *cStoreOptions) (err error) {
	*c = cStoreOptions{size: uint32(unsafe.Sizeof(*c)), flags: uint32(o.Flags), memoryBytes: o.MemoryBytes, seqMax: o.SeqMax, queueMax: o.QueueMax,
		viewMax: o.ViewMax, workerCount: o.WorkerCount, openBytesMax: o.OpenBytesMax, logLevel: o.LogLevel}
	if c.timeoutUs, err = units("Timeout", o.Timeout, time.Microsecond); err != nil {
		return err
	}
	c.leaseMs, err = milliseconds("Lease", o.Lease)
	return err
}

// Open opens a store: "mem:" is what is built.
func Open(uri string, options *StoreOptions) (*Store, error) {
	if options == nil {
		options = &StoreOptions{}
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	c := new(cStoreOptions)
	if err := options.fill(c); err != nil {
		return nil, err
	}
	name, err := cString(&pins, "uri", uri)
	if err != nil {
		return nil, err
	}
	s := &Store{gate: newGate(), hostDriven: options.Flags&OpenHostDriven != 0}
	if options.Log != nil {
		s.logger = &logger{handle: cgo.NewHandle(options.Log)}
		s.logger.pins.Pin(s.logger)
		c.log, c.logContext = logFunction(), unsafe.Pointer(&s.logger.handle)
		pins.Pin(c.logContext)
	}
	token := new(uintptr)
	if err := checked(func(e *cError) int32 { return raw.Kvc_open(token, name, unsafe.Pointer(c), unsafe.Pointer(e)) }); err != nil {
		s.logger.end()
		return nil, err
	}
	hold(s, &s.handle, s.gate, s, storeKind, *token, s.logger.end)
	s.handle.store = nil // it would hold itself
	return s, nil
}

func (l *logger) end() {
	if l != nil {
		l.handle.Delete()
		l.pins.Unpin()
	}
}

// Close ends everything of the store: queued calls are cancelled and waited for, its objects become stale.  With views or regions held it is
// ErrBusy, and nothing is closed.  It waits for calls that are running, while what
// is released meanwhile is, and tells every queued call what it came to.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	defer runtime.KeepAlive(s)
	if err := s.gate.shut(s.token); err != nil {
		return err
	}
	s.cleanup.Stop()
	s.logger.end()
	return nil
}

// ownQueue is where calls run whose context may end: one of StoreOptions.QueueMax, from the first such call on.
func (s *Store) ownQueue() (*Queue, error) {
	s.ownMu.Lock()
	defer s.ownMu.Unlock()
	if s.own == nil {
		own, err := s.newQueue(QueueOptions{Depth: 1 << 16, DescriptionBytes: 1 << 30}, ownKind)
		if err != nil {
			return nil, err
		}
		s.own = own
	}
	return s.own, nil
}

// Info says what the store holds.
func (s *Store) Info() (StoreInfo, error) {
	info := new(StoreInfo)
	info.size = uint32(unsafe.Sizeof(*info))
	err := s.call(func(e *cError) int32 { return raw.Kvc_store_get_info(unsafe.Pointer(info), s.token, unsafe.Pointer(e)) })
	return *info, err
}

// Step does background work, of a store opened with [OpenHostDriven]; it says whether there is more.
func (s *Store) Step(budget time.Duration) (more bool, err error) {
	microseconds, err := units("budget", budget, time.Microsecond)
	if err != nil {
		return false, err
	}
	left := new(uint32)
	err = s.call(func(e *cError) int32 { return raw.Kvc_store_step(left, s.token, microseconds, unsafe.Pointer(e)) })
	return *left != 0, err
}

// FirstBad is one line about the first page that failed, empty: none did.
func (v *VerifyInfo) FirstBad() string { return text(v.firstBad[:]) }

func (s *Store) verifying() (*lent, invoke) {
	return newLent(s), func(l *lent, _ *uintptr, _, call, err unsafe.Pointer) int32 {
		return raw.Kvc_store_verify(unsafe.Pointer(&l.verify), s.token, call, err)
	}
}

// Verify reads and checks everything held; what is bad is dropped, and the error then is ErrCorrupt.
func (s *Store) Verify(ctx context.Context) (VerifyInfo, error) {
	l, call := s.verifying()
	err := s.run(ctx, l, call)
	return l.verify, err
}

// Verify starts [Store.Verify]; what it found is in [Call.Verified].
func (q *Queue) Verify() (*Call, error) {
	l, call := q.store.verifying()
	return q.begin(l, call, nil)
}

// Verified is what a Verify found.  After Done.
func (c *Call) Verified() VerifyInfo { return c.lent.verify }

// Region is memory of the host that is registered: rows and objects inside it move without staging where a store can.
type Region struct {
	handle
	pins *runtime.Pinner
}

// Region registers memory, which stays where it is until the region is closed.  Regions that are held do not overlap.
func (s *Store) Region(memory Memory) (*Region, error) {
	pins := new(runtime.Pinner)
	pin(pins, memory.data)
	token := new(uintptr)
	err := s.call(func(e *cError) int32 {
		return raw.Kvc_region_register(token, s.token, memory.data, memory.bytes, uint32(MemoryHost), 0, unsafe.Pointer(e))
	})
	if err != nil {
		pins.Unpin()
		return nil, err
	}
	r := &Region{pins: pins}
	return hold(r, &r.handle, s.gate, s, regionKind, *token, pins.Unpin), nil
}

// Close ends the registration.
func (r *Region) Close() error {
	if r == nil {
		return nil
	}
	defer runtime.KeepAlive(r)
	if err := r.close(); err != nil {
		return err
	}
	r.pins.Unpin()
	return nil
}
