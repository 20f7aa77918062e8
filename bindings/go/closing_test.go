package kvc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// fullStore has room for nothing more: appends wait.  The sequences that hold it.
func fullStore(t *testing.T, timeout time.Duration) (*Store, *Scope, []*Seq) {
	t.Helper()
	store := openStore(t, &StoreOptions{Flags: OpenWait, MemoryBytes: 8 << 20, OpenBytesMax: 64 << 10, Timeout: timeout})
	scope := openScope(t, store, "m")
	var held []*Seq
	for i := range int32(9) {
		seq := must[*Seq](t)(scope.Create(&SeqOptions{Lease: Forever}))
		check(t, seq.Append(background, prompt(i, 3), stamped(int(i), 0, 3).rows()))
		held = append(held, seq)
	}
	t.Cleanup(func() { runtime.KeepAlive(held) }) // collected, they would make room
	return store, scope, held
}

// ends fails the test where something does not end.
func ends(t *testing.T, what string, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); run() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal(what, " does not end")
	}
}

// A queue that is closed tells every call what it came to: what is told cancelled was not done.
func TestCloseTellsWhatWasDone(t *testing.T) {
	for range 20 {
		store := openStore(t, nil)
		scope := openScope(t, store, "m")
		queue := must[*Queue](t)(store.Queue(QueueOptions{Depth: 512}))
		var seqs []*Seq
		var calls []*Call
		for i := range 300 {
			seqs = append(seqs, must[*Seq](t)(scope.Create(nil)))
			calls = append(calls, must[*Call](t)(queue.Append(seqs[i], prompt(int32(i), 4), stamped(i, 0, 4).rows())))
		}
		check(t, queue.Close())
		for i, call := range calls {
			_, err := call.Wait(background)
			if tokens := must[SeqInfo](t)(seqs[i].Info()).Tokens; (err == nil) != (tokens == 4) {
				t.Fatalf("call %d: %v, and %d tokens", i, err, tokens)
			}
		}
		check(t, store.Close())
	}
}

// A store whose close waits for a call lets in the release that the call waits for.
func TestAReleaseEndsWhatACloseWaitsFor(t *testing.T) {
	store, scope, held := fullStore(t, Forever)
	waiting := make(chan error)
	go func() {
		seq := must[*Seq](t)(scope.Create(nil))
		waiting <- seq.Append(background, prompt(77, 3), stamped(77, 0, 3).rows())
	}()
	time.Sleep(50 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- store.Close() }()
	time.Sleep(50 * time.Millisecond)
	ends(t, "the store's close", func() {
		for _, seq := range held { // one may be enough, and the store closes then
			if err := seq.Close(); err != nil && !errors.Is(err, ErrStale) {
				t.Error(err)
			}
		}
		check(t, <-waiting)
		check(t, <-closed)
	})
}

// Views keep a store from closing, and nobody is disturbed by who tries.
func TestABusyStoreGoesOn(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	seq := written(t, scope, 1, 1, 16)
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	view := must[*View](t)(seq.View(0, 0, 0))
	expectStatus(t, store.Close(), ErrBusy, "1 views")
	must[Result](t)(must[*Call](t)(queue.Gather(seq, emptyCache(0, 16).rows())).Wait(background))
	check(t, view.Close())
	if view.K != nil {
		t.Fatal("a closed view has its memory still")
	}
	check(t, store.Close())
}

// Drains that wait for ever end with the queue, and with the store.
func TestDrainsEndWithWhatTheyWaitFor(t *testing.T) {
	for _, what := range []string{"queue", "store"} {
		store := openStore(t, nil)
		queue := must[*Queue](t)(store.Queue(QueueOptions{}))
		drained := make(chan error)
		go func() { _, err := queue.Drain(Forever); drained <- err }()
		time.Sleep(30 * time.Millisecond)
		ends(t, what, func() {
			if what == "queue" {
				check(t, queue.Close())
			} else {
				check(t, store.Close())
			}
			expectStatus(t, <-drained, ErrStale)
		})
	}
}

// Events that nobody takes keep no call from being told.
func TestCallsAreToldWhileEventsWait(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	check(t, queue.Watch(nil, EventStored))
	seq := written(t, scope, 1, 1, 32)
	ends(t, "a call", func() {
		for range 100 {
			must[Result](t)(must[*Call](t)(queue.Gather(seq, emptyCache(0, 32).rows())).Wait(background))
		}
	})
	if events := must[[]Event](t)(queue.Events()); len(events) != 2 {
		t.Fatal(events)
	}
}

// Objects of two stores do not meet.
func TestObjectsOfAnotherStore(t *testing.T) {
	one, two := openStore(t, nil), openStore(t, nil)
	queue := must[*Queue](t)(one.Queue(QueueOptions{}))
	scope := openScope(t, two, "m")
	seq := written(t, scope, 1, 1, 4)
	items := []Object{{Key: []byte("k")}}
	for _, start := range []func() (*Call, error){
		func() (*Call, error) { return queue.Gather(seq, emptyCache(0, 4).rows()) },
		func() (*Call, error) { return queue.Match(scope, prompt(1, 4), nil) },
		func() (*Call, error) { return queue.GetAll(scope, items, nil) },
		func() (*Call, error) { return queue.Clear(scope) },
	} {
		_, err := start()
		expectStatus(t, err, ErrMisuse, "another store")
	}
	if items[0].Status != ErrMisuse {
		t.Fatal("an item of a call that was not made: ", items[0].Status)
	}
	expectStatus(t, queue.Watch(scope, EventStored), ErrMisuse)
}

// An item says what its call came to, also where that was not made.
func TestItemsOfCallsThatWereNotMade(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	over, cancel := context.WithCancel(background)
	cancel()
	items := []Object{{Key: []byte("k"), Value: Of([]byte("v"))}}
	_, err := scope.PutAll(over, items, nil)
	expectStatus(t, err, ErrCancelled)
	if items[0].Status != ErrCancelled {
		t.Fatal(items[0].Status)
	}
	_, err = scope.PutAll(background, items, &ObjectOptions{TTL: -1})
	expectStatus(t, err, ErrArgument)
	if items[0].Status != ErrArgument {
		t.Fatal(items[0].Status)
	}
	check(t, store.Close())
	_, err = scope.PutAll(background, items, nil)
	expectStatus(t, err, ErrStale)
	if items[0].Status != ErrStale {
		t.Fatal(items[0].Status)
	}
}

// Whoever waits for a call with a context of his own changes nothing of what others were told.
func TestWaitersHaveErrorsOfTheirOwn(t *testing.T) {
	store, scope, _ := fullStore(t, 0)
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	call := must[*Call](t)(queue.Append(must[*Seq](t)(scope.Create(nil)), prompt(77, 3), stamped(77, 0, 3).rows()))
	call.Cancel()
	_, first := call.Wait(background)
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			ctx, cancel := context.WithTimeout(background, time.Nanosecond)
			defer cancel()
			call.Wait(ctx)
		}()
	}
	group.Wait()
	if !errors.Is(first, ErrCancelled) && !errors.Is(first, ErrFull) { // full: it was being tried when it was asked to stop
		t.Fatal(first)
	}
	if errors.Is(first, context.DeadlineExceeded) {
		t.Fatal("a waiter's deadline is in another's error: ", first)
	}
}

// A deadline is one error, whenever it came.
func TestDeadlinesAreOneError(t *testing.T) {
	_, scope, _ := fullStore(t, 0)
	seq, mine := must[*Seq](t)(scope.Create(nil)), errors.New("mine")
	for i := range 200 {
		ctx, cancel := context.WithTimeoutCause(background, time.Duration(i%20)*100*time.Microsecond+1, mine)
		err := seq.Append(ctx, prompt(77, 3), stamped(77, 0, 3).rows())
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mine) || errors.Is(err, context.Canceled) {
			t.Fatal(i, err)
		}
	}
}

// More calls than the store's own queue takes wait for their turn.
func TestMoreContextsThanPlaces(t *testing.T) {
	store := openStore(t, nil)
	scope := must[*Scope](t)(store.Scope(ScopeOptions{Model: "objects"}))
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	blocks := make([]int32, 300000) // longer than any default
	for i := range blocks {
		blocks[i] = int32(i)
	}
	seq := written(t, openScope(t, store, "m"), 1, 1, 4)
	k := make([]uint16, layers*16*heads*kDim)
	rows := Rows{LayerCount: layers, TokenCount: 4, BlockTokens: 16, Blocks: blocks, K: Array{Memory: Of(k), LayerStride: 16 * heads * kDim * 2}}
	must[Result](t)(seq.Gather(ctx, rows))
	var group sync.WaitGroup
	for i := range 5000 {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := scope.Put(ctx, []byte(fmt.Sprint(i)), []byte("x")); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
}

// A panic of the caller's, who recovers, costs no more than the call.
func TestPanicsLeaveNothingPinned(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	written(t, scope, 1, 1, 16)
	peeked, _, err := scope.Match(background, prompt(1, 16), &SeqOptions{Flags: SeqPeek})
	check(t, err)
	_, err = peeked.Gather(background, emptyCache(0, 16).rows())
	expectStatus(t, err, ErrMisuse)
	check(t, peeked.Close())
	func() {
		defer func() { _ = recover() }()
		var none context.Context
		scope.PutAll(none, []Object{{Key: []byte("k"), Value: Of(make([]byte, 9))}}, nil)
	}()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	expectStatus(t, Reorder([]*Seq{nil}, []uint32{0}), ErrMisuse)
	if At(nil, 5).From(3).Len() != 0 {
		t.Fatal("memory that is nowhere")
	}
}

// What is forgotten with everything on it is closed as a whole: a store with regions, a queue with calls.
func TestForgottenStores(t *testing.T) {
	var mu sync.Mutex
	stores := 0
	for range 20 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	ReportLeaks(func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if what == "store" {
			stores++
		}
	})
	defer ReportLeaks(nil)
	for range 20 {
		func() {
			store := must[*Store](t)(Open("mem:", &StoreOptions{MemoryBytes: 4 << 20, Log: func(uint32, string) {}, LogLevel: 3}))
			scope := openScope(t, store, "m")
			must[*Region](t)(store.Region(Of(make([]byte, 4096))))
			must[*Call](t)(must[*Queue](t)(store.Queue(QueueOptions{})).Append(must[*Seq](t)(scope.Create(nil)), prompt(1, 16), stamped(1, 0, 16).rows()))
			info := must[VerifyInfo](t)(store.Verify(background)) // the last use of it
			_ = info
		}()
	}
	ends(t, "the collection of stores", func() {
		for {
			runtime.GC()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			all := stores == 20
			mu.Unlock()
			if all {
				return
			}
		}
	})
}
