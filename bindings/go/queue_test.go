package kvc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Hundreds of calls run at once; each tells its own result, and its memory is right when it is done.
func TestCallsInFlight(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{Depth: 512, DescriptionBytes: 1 << 20}))
	var calls []*Call
	var caches []*cache
	for i := range 400 {
		seq := written(t, scope, i, int32(i), 20)
		caches = append(caches, emptyCache(0, 20))
		calls = append(calls, must[*Call](t)(queue.Gather(seq, caches[i].rows())))
		check(t, seq.Close()) // what was made runs on
	}
	for i, call := range calls {
		got := must[Result](t)(call.Wait(background))
		if got.Operation != OpGather || got.Done != 20 {
			t.Fatalf("%+v", got)
		}
		if wrong := caches[i].difference(func(uint64) int { return i }); wrong != "" {
			t.Fatalf("call %d: %s", i, wrong)
		}
	}
	_, err := queue.Gather(written(t, scope, 1, 9999, 4), emptyCache(3, 4).rows())
	check(t, err)
}

// Every call that may wait runs in a queue as it does without.
func TestEveryCallQueues(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	wait := func(call *Call, err error) *Call {
		t.Helper()
		check(t, err)
		must[Result](t)(call.Wait(background))
		return call
	}
	seq := must[*Seq](t)(scope.Create(nil))
	wait(queue.Append(seq, prompt(1, 40), stamped(1, 0, 40).rows()))
	wait(queue.Prefetch(seq, TierHost, Rows{LayerCount: layers, TokenCount: All}))
	match := wait(queue.Match(scope, prompt(1, 40), nil))
	if match.Match().Tokens != 32 {
		t.Fatalf("%+v", match.Match())
	}
	expectRows(t, match.Seq(), 1, 0, 32)
	check(t, wait(queue.Lease(seq, 0, All, time.Minute)).Lease().Close())
	wait(queue.Publish(seq, "name", time.Minute))
	expectRows(t, wait(queue.Attach(scope, "name", nil)).Seq(), 1, 0, 40)
	path := filepath.Join(t.TempDir(), "file")
	wait(queue.Save(seq, path))
	expectRows(t, wait(queue.Restore(scope, path, nil)).Seq(), 1, 0, 40)
	value, items := []byte("value"), []Object{{Key: []byte("k")}}
	wait(queue.PutAll(scope, []Object{{Key: []byte("k"), Value: Of(value)}}, nil))
	got := []Object{{Key: []byte("k"), Value: Of(make([]byte, 5))}}
	wait(queue.GetAll(scope, got, nil))
	lease := wait(queue.ExistsAll(scope, items, &ObjectOptions{Flags: ObjectLease})).Lease()
	if got[0].ValueSize != 5 || items[0].Status != OK || lease == nil {
		t.Fatalf("%+v %+v", got, items)
	}
	check(t, lease.Close())
	wait(queue.DeleteAll(scope, items))
	wait(queue.Clear(scope))
	call := must[*Call](t)(queue.Restore(scope, path+".none", nil))
	_, err := call.Wait(background)
	expectStatus(t, err, ErrNotFound, "none")
	if call.Seq() != nil {
		t.Fatal("a sequence of no file")
	}
}

// Blocking calls whose context may end give what they give without one.
func TestContextsOfEveryCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	seq := must[*Seq](t)(scope.Create(nil))
	check(t, seq.Append(ctx, prompt(1, 40), stamped(1, 0, 40).rows()))
	found, info, err := scope.Match(ctx, prompt(1, 40), nil)
	check(t, err)
	if info.Tokens != 32 {
		t.Fatalf("%+v", info)
	}
	expectRows(t, found, 1, 0, 32)
	check(t, must[*Lease](t)(seq.Lease(ctx, 0, All, time.Minute)).Close())
	check(t, seq.Publish(ctx, "name", 0))
	expectRows(t, must[*Seq](t)(scope.Attach(ctx, "name", nil)), 1, 0, 40)
	check(t, scope.Put(ctx, []byte("k"), []byte("value")))
	if got := must[[]byte](t)(scope.Get(ctx, []byte("k"))); string(got) != "value" {
		t.Fatalf("%q", got)
	}
	if got := must[[]ObjectEntry](t)(scope.List(ctx, nil, 10)); len(got) != 1 || string(got[0].Key()) != "k" {
		t.Fatalf("%+v", got)
	}
	check(t, scope.Delete(ctx, []byte("k")))
	must[VerifyInfo](t)(store.Verify(ctx))
	must[Result](t)(scope.Clear(ctx))
	_, err = seq.Gather(ctx, emptyCache(0, 41).rows())
	expectStatus(t, err, ErrRange)
}

// More calls than the queue takes are ErrBusy, and lose nothing.
func TestFullQueue(t *testing.T) {
	store := openStore(t, &StoreOptions{Flags: OpenHostDriven})
	seq := written(t, openScope(t, store, "m"), 1, 1, 20)
	queue := must[*Queue](t)(store.Queue(QueueOptions{Depth: 2}))
	first, second := emptyCache(0, 20), emptyCache(0, 20)
	calls := []*Call{must[*Call](t)(queue.Gather(seq, first.rows())), must[*Call](t)(queue.Gather(seq, second.rows()))}
	_, err := queue.Gather(seq, first.rows())
	expectStatus(t, err, ErrBusy)
	calls[1].Cancel()
	for told := 0; told < 2; {
		told += must[int](t)(queue.Drain(time.Second))
	}
	must[Result](t)(calls[0].Wait(background))
	_, err = calls[1].Wait(background)
	expectStatus(t, err, ErrCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Fatal("a cancelled call is context.Canceled")
	}
	if wrong := first.difference(func(uint64) int { return 1 }); wrong != "" {
		t.Fatal(wrong)
	}
	if slices.ContainsFunc(second.k, func(x uint16) bool { return x != 0xDEAD }) {
		t.Fatal("a cancelled call wrote")
	}
}

// A queue or a store that is closed ends what is in flight: every call tells, nothing waits for ever.
func TestClosingEndsCalls(t *testing.T) {
	for _, what := range []string{"queue", "store"} {
		t.Run(what, func(t *testing.T) {
			store := openStore(t, &StoreOptions{Flags: OpenWait, MemoryBytes: 8 << 20, OpenBytesMax: 64 << 10})
			scope := openScope(t, store, "m")
			queue := must[*Queue](t)(store.Queue(QueueOptions{}))
			var calls []*Call
			for i := range int32(100) { // soon without room: they wait
				seq := must[*Seq](t)(scope.Create(&SeqOptions{Lease: Forever}))
				calls = append(calls, must[*Call](t)(queue.Append(seq, prompt(i, 3), stamped(int(i), 0, 3).rows())))
			}
			if what == "queue" {
				check(t, queue.Close())
			} else {
				check(t, store.Close())
			}
			ends := map[string]int{}
			for _, call := range calls {
				_, err := call.Wait(background)
				var failed *Error
				if errors.As(err, &failed) {
					ends[failed.Status.Error()]++
				} else {
					ends["OK"]++
				}
			}
			if ends["OK"]+ends["KVC_ERR_CANCELLED"]+ends["KVC_ERR_FULL"] != 100 || ends["KVC_ERR_CANCELLED"] == 0 {
				t.Fatal(ends)
			}
			expectStatus(t, queue.Close(), ErrStale)
			_, err := queue.Append(must[*Seq](t)(nilSeq(scope)), nil)
			if err == nil {
				t.Fatal("a closed queue took a call")
			}
		})
	}
}

// nilSeq is a sequence that may be stale.
func nilSeq(scope *Scope) (*Seq, error) {
	seq, err := scope.Create(nil)
	if err != nil {
		return &Seq{handle{store: scope.store}}, nil
	}
	return seq, nil
}

// Held-back calls start with Submit, and a Drain; the descriptor is the queue's.
func TestSubmitAndFd(t *testing.T) {
	queue := must[*Queue](t)(openStore(t, nil).Queue(QueueOptions{}))
	check(t, queue.Submit())
	if fd := must[int](t)(queue.Fd()); fd < 3 {
		t.Fatal(fd)
	}
	if n, err := queue.Drain(0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	_, err := queue.Drain(-1)
	expectStatus(t, err, ErrArgument)
}

// Events tell what became visible and what went, with ids.
func TestEvents(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	check(t, queue.Watch(scope, EventStored|EventCleared))
	seq := written(t, scope, 1, 1, 33)
	select {
	case <-queue.EventsReady():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody told of events")
	}
	var events []Event
	for len(events) < 2 {
		events = append(events, must[[]Event](t)(queue.Events())...)
	}
	for i, e := range events {
		if e.Kind != EventStored || !slices.Equal(e.Tokens, prompt(1, 33)[i*16:][:16]) || e.Scope != must[ScopeInfo](t)(scope.Info()).Fingerprint {
			t.Fatalf("%d: %+v", i, e)
		}
	}
	if events[1].Parent != events[0].Chunk {
		t.Fatal("the chain is broken")
	}
	check(t, seq.Close())
	must[Result](t)(scope.Clear(background))
	if events = must[[]Event](t)(queue.Events()); len(events) != 1 || events[0].Kind.String() != "Cleared" {
		t.Fatal(fmt.Sprint(events))
	}
	check(t, queue.Watch(nil, 0))
}
