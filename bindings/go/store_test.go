package kvc

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A store opens with its limits, says what it holds, and closes once.
func TestStoreOpensAndCloses(t *testing.T) {
	store := must[*Store](t)(Open("mem:", &StoreOptions{MemoryBytes: 5 << 20, SeqMax: 3}))
	info := must[StoreInfo](t)(store.Info())
	if info.MemoryBytes != 6<<20 || info.SeqCount != 0 {
		t.Fatalf("%+v", info)
	}
	scope := openScope(t, store, "m")
	for range 3 {
		must[*Seq](t)(scope.Create(nil))
	}
	_, err := scope.Create(nil)
	expectStatus(t, err, ErrFull, "3")
	check(t, store.Close())
	err = store.Close()
	expectStatus(t, err, ErrStale)
	if !errors.Is(err, os.ErrClosed) {
		t.Fatal("a closed store is os.ErrClosed")
	}
}

// What is wrong is refused with its value, before anything is made.
func TestWrongOptionsAreNamed(t *testing.T) {
	_, err := Open("disk:x", nil)
	expectStatus(t, err, ErrArgument, "disk:x")
	_, err = Open("mem:\x00x", nil)
	expectStatus(t, err, ErrArgument, "uri", "4")
	_, err = Open("file:/tmp", nil)
	expectStatus(t, err, ErrUnsupported)
	_, err = Open("mem:", &StoreOptions{Lease: -time.Second})
	expectStatus(t, err, ErrArgument, "Lease", "-1s")
	_, err = Open("mem:", &StoreOptions{MemoryBytes: math.MaxUint64})
	if err == nil {
		t.Fatal("a store of all there is")
	}
	_, err = Open("mem:", &StoreOptions{Flags: 1 << 30})
	expectStatus(t, err, ErrTooNew, "0x40000000")
	store := openStore(t, nil)
	_, err = store.Scope(ScopeOptions{})
	expectStatus(t, err, ErrArgument, "model")
	_, err = store.Scope(ScopeOptions{Model: "m", Shape: &Shape{DType: F16}})
	expectStatus(t, err, ErrShape)
	_, err = store.Scope(ScopeOptions{Model: "m", Shape: &Shape{DType: F16, ChunkTokens: 17, Layers: testShape.Layers}})
	expectStatus(t, err, ErrShape, "17")
	_, err = (&Shape{DType: F16, Layers: []Layer{{Count: 1, Kind: 9, KVHeads: 1, KDim: 8, VDim: 8}}}).Check()
	expectStatus(t, err, ErrShape)
}

// A shape says what a token takes: the sum over layers of heads times dims times bytes.
func TestShapeInfo(t *testing.T) {
	info := must[ShapeInfo](t)(testShape.Check())
	if info.LayerCount != layers || info.TokenBytes != layers*heads*(kDim+vDim)*2 || info.ChunkBytes != chunkTokens*info.TokenBytes {
		t.Fatalf("%+v", info)
	}
}

// Durations become the unit of C, rounded up; Forever is no deadline.
func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]uint64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3600000, Forever: forever, Forever - 1: 9223372036855} {
		if got, err := milliseconds("lease", d); got != want || err != nil {
			t.Errorf("%v: %d, not %d (%v)", d, got, want, err)
		}
	}
}

// Log lines come while the store lives; a panic in the function is dropped, and never unwinds C.
func TestLog(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	store := must[*Store](t)(Open("mem:", &StoreOptions{MemoryBytes: 4 << 20, LogLevel: 3, Log: func(level uint32, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
		panic("in the log")
	}}))
	runtime.GC()
	check(t, store.Close())
	if len(lines) < 2 || !strings.Contains(lines[0], "open") || !strings.Contains(lines[len(lines)-1], "close") {
		t.Fatalf("%q", lines)
	}
}

// A host-driven store has no threads: its queue works in Drain, and contexts give deadlines.
func TestHostDriven(t *testing.T) {
	store := openStore(t, &StoreOptions{Flags: OpenHostDriven})
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	seq := written(t, scope, 1, 1, 40)
	c := emptyCache(0, 40)
	call := must[*Call](t)(queue.Gather(seq, c.rows()))
	select {
	case <-call.Done():
		t.Fatal("somebody did the work")
	default:
	}
	for range 100 {
		if n, err := queue.Drain(0); err != nil || n > 0 {
			check(t, err)
			break
		}
	}
	must[Result](t)(call.Wait(background))
	if wrong := c.difference(func(uint64) int { return 1 }); wrong != "" {
		t.Fatal(wrong)
	}
	must[bool](t)(store.Step(time.Millisecond))
	_, err := openStore(t, nil).Step(time.Millisecond)
	expectStatus(t, err, ErrMisuse)
}

// A verify reads everything.
func TestVerify(t *testing.T) {
	store := openStore(t, nil)
	written(t, openScope(t, store, "m"), 1, 1, 64)
	info := must[VerifyInfo](t)(store.Verify(background))
	if info.PagesRead == 0 || info.PagesBad != 0 || info.FirstBad() != "" {
		t.Fatalf("%+v", info)
	}
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	call := must[*Call](t)(queue.Verify())
	must[Result](t)(call.Wait(background))
	if call.Verified().PagesRead != info.PagesRead {
		t.Fatal("a queued verify reads as much")
	}
}

// Registered memory is pinned and takes rows as any; overlapping regions are refused.
func TestRegions(t *testing.T) {
	store := openStore(t, nil)
	seq := written(t, openScope(t, store, "m"), 1, 1, 16)
	c := emptyCache(0, 16)
	region := must[*Region](t)(store.Region(Of(c.k)))
	_, err := store.Region(Of(c.k[5:9]))
	expectStatus(t, err, ErrArgument)
	must[Result](t)(seq.Gather(background, c.rows()))
	if wrong := c.difference(func(uint64) int { return 1 }); wrong != "" {
		t.Fatal(wrong)
	}
	expectStatus(t, store.Close(), ErrBusy, "1")
	check(t, region.Close())
	expectStatus(t, region.Close(), ErrStale)
}
