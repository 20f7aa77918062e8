package kvc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Goroutines by the thousand, with the collector at work, read what was written.
func TestThousandGoroutines(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	written(t, scope, 1, 1, 64)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	var group sync.WaitGroup
	failures := make(chan string, 2000)
	for i := range 2000 {
		group.Add(1)
		go func() {
			defer group.Done()
			ctx, cancel := background, context.CancelFunc(func() {})
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(background, time.Minute)
			}
			defer cancel()
			seq, info, err := scope.Match(ctx, prompt(1, 64), nil)
			if err != nil || info.Tokens != 64 {
				failures <- fmt.Sprint(err, info)
				return
			}
			c := emptyCache(0, 64) // the only hold on its memory is the call's
			if _, err := seq.Gather(ctx, c.rows()); err != nil {
				failures <- err.Error()
			} else if wrong := c.difference(func(uint64) int { return 1 }); wrong != "" {
				failures <- wrong
			}
			if i%3 != 0 { // the others are for the collector
				seq.Close()
			}
		}()
	}
	group.Wait()
	close(failures)
	for failure := range failures {
		t.Fatal(failure)
	}
}

// A store that is closed under calls gives each of them its result or ErrStale, never a crash.
func TestCloseUnderCalls(t *testing.T) {
	for range 20 {
		store := must[*Store](t)(Open("mem:", &StoreOptions{MemoryBytes: 8 << 20}))
		scope := openScope(t, store, "m")
		seq := written(t, scope, 1, 1, 32)
		var group sync.WaitGroup
		var started atomic.Int32
		for i := range 16 {
			group.Add(1)
			go func() {
				defer group.Done()
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if i%2 == 0 {
					ctx = background
				}
				for {
					started.Add(1)
					c := emptyCache(0, 32)
					if _, err := seq.Gather(ctx, c.rows()); err != nil {
						if !errors.Is(err, ErrStale) && !errors.Is(err, ErrCancelled) {
							t.Error(err)
						}
						return
					}
					if wrong := c.difference(func(uint64) int { return 1 }); wrong != "" {
						t.Error(wrong)
					}
				}
			}()
		}
		for started.Load() < 64 {
			runtime.Gosched()
		}
		check(t, store.Close())
		group.Wait()
	}
}

// What is forgotten is released when it is collected, in whatever order, and told; what was closed is not told.
func TestForgottenObjectsAreReleased(t *testing.T) {
	for range 20 { // what other tests left
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	var mu sync.Mutex
	told := map[string]int{}
	ReportLeaks(func(what string) { mu.Lock(); told[what]++; mu.Unlock() })
	defer ReportLeaks(nil)
	store := openStore(t, nil)
	func() {
		scope := openScope(t, store, "m")
		seq := written(t, scope, 1, 1, 32)
		must[*Lease](t)(seq.Lease(background, 0, All, time.Hour))
		queue := must[*Queue](t)(store.Queue(QueueOptions{}))
		<-must[*Call](t)(queue.Match(scope, prompt(1, 32), nil)).Done() // its sequence is nobody's
		must[*Region](t)(store.Region(Of(make([]byte, 4096))))
		check(t, written(t, scope, 1, 2, 4).Close())
	}()
	want := map[string]int{"scope": 1, "sequence": 2, "lease": 1, "queue": 1, "region": 1}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		info := must[StoreInfo](t)(store.Info())
		mu.Lock()
		same := fmt.Sprint(told) == fmt.Sprint(want)
		mu.Unlock()
		if same && info.SeqCount == 0 && info.LeaseCount == 0 && info.RegionCount == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, not %v; %+v", told, want, info)
		}
	}
}

// Calls that nobody waits for keep their memory until they are done, whatever the collector does.
func TestAbandonedCalls(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	queue := must[*Queue](t)(store.Queue(QueueOptions{Depth: 4096}))
	for i := range 500 {
		seq := must[*Seq](t)(scope.Create(nil))
		must[*Call](t)(queue.Append(seq, prompt(int32(i), 16), stamped(i, 0, 16).rows()))
		if i%50 == 0 {
			runtime.GC()
		}
	}
	check(t, queue.Submit())
	for i := range 500 {
		var info MatchInfo
		var seq *Seq
		for info.Tokens != 16 {
			var err error
			seq, info, err = scope.Match(background, prompt(int32(i), 16), nil)
			check(t, err)
		}
		expectRows(t, seq, i, 0, 16)
	}
}
