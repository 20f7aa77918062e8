package kvc

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// B07: names are the hash that the header describes, computed here by Go's own SHA-256: every language gives a scope and a chunk the same one.
func Test_B07_names_are_those_of_every_language(t *testing.T) {
	u32 := func(out []byte, x ...uint32) []byte {
		for _, word := range x {
			out = binary.LittleEndian.AppendUint32(out, word)
		}
		return out
	}
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	shape := u32([]byte("kvc shape 1"), uint32(F16), chunkTokens, uint32(RopeUnstated))
	shape = binary.LittleEndian.AppendUint64(shape, 1)
	shape = u32(shape, layers, uint32(LayerFull), heads, kDim, vDim, 0, 0, uint32(F16), uint32(F16))
	shapeName := sha256.Sum256(shape)
	if got := must[ShapeInfo](t)(testShape.Check()).Fingerprint; got != shapeName {
		t.Fatalf("shape %x, not %x", got, shapeName)
	}
	name := []byte("kvc scope 1")
	for tag, text := range []string{"", "m", "", "", ""} {
		name = binary.LittleEndian.AppendUint64(append(name, byte(tag+1)), uint64(len(text)))
		name = append(name, text...)
	}
	scopeName := sha256.Sum256(append(name, shapeName[:]...))
	if got := must[ScopeInfo](t)(scope.Info()).Fingerprint; got != scopeName {
		t.Fatalf("scope %x, not %x", got, scopeName)
	}
	queue := must[*Queue](t)(store.Queue(QueueOptions{}))
	check(t, queue.Watch(scope, EventStored))
	written(t, scope, 1, 1, 16)
	chunk := append([]byte("kvc chunk 1"), scopeName[:]...)
	chunk = u32(chunk, chunkTokens)
	for _, id := range prompt(1, 16) {
		chunk = u32(chunk, uint32(id))
	}
	events := must[[]Event](t)(queue.Events())
	if want := sha256.Sum256(u32(chunk, 0)); len(events) != 1 || events[0].Chunk != want {
		t.Fatalf("chunk %x, not %x", events[0].Chunk, want)
	}
}

// B112: nothing of Go stays in C after a call, and queued calls have what they use pinned: nested slices, texts, callbacks and late results, with the
// collector moving all that it may.  What breaks a rule panics under GOEXPERIMENT=cgocheck2 and -race.
func Test_B112_no_pointer_of_go_is_kept_but_pinned_ones(t *testing.T) {
	var logged sync.Map
	store := openStore(t, &StoreOptions{LogLevel: 3, Log: func(_ uint32, line string) { logged.Store(line, nil) }})
	defer func() { runtime.GC() }()
	scope := must[*Scope](t)(store.Scope(ScopeOptions{Model: fmt.Sprint("m", 1), Salt: []byte{1, 2}, Shape: &testShape, TTL: time.Hour}))
	queue := must[*Queue](t)(store.Queue(QueueOptions{Depth: 1024}))
	folder := t.TempDir()
	var calls []*Call
	for i := range 200 {
		seq := must[*Seq](t)(scope.Create(&SeqOptions{Extras: []Extra{{TokenBegin: 0, TokenCount: 2, Data: []byte(fmt.Sprint("image", i))}}}))
		rows := stamped(i, 0, 20).rows()
		blocks := []int32{1, 0}
		pool := make([]uint16, layers*2*16*heads*kDim)
		gathered := Rows{LayerCount: layers, TokenCount: 20, BlockTokens: 16, Blocks: slices.Clone(blocks), K: Array{Memory: Of(pool), LayerStride: 2 * 16 * heads * kDim * 2}}
		parts := []Memory{Of([]byte("a")), Of([]uint16{2}), Of([]float32{3})}
		for _, start := range []func() (*Call, error){
			func() (*Call, error) { return queue.Append(seq, prompt(int32(i), 20), rows) },
			func() (*Call, error) { return queue.Gather(seq, gathered) },
			func() (*Call, error) {
				return queue.PutAll(scope, []Object{{Key: []byte(fmt.Sprint(i)), Parts: parts}, {Key: []byte(fmt.Sprint("b", i))}}, nil)
			},
			func() (*Call, error) { return queue.Publish(seq, fmt.Sprint("name", i), time.Minute) },
			func() (*Call, error) { return queue.Save(seq, filepath.Join(folder, fmt.Sprint(i%3))) },
		} {
			calls = append(calls, must[*Call](t)(start()))
		}
		if i%20 == 0 {
			runtime.GC()
		}
	}
	for _, call := range calls {
		must[Result](t)(call.Wait(background))
	}
	expectRows(t, must[*Seq](t)(scope.Attach(background, "name7", nil)), 7, 0, 20)
	if got := must[[]byte](t)(scope.Get(background, []byte("7"))); len(got) != 1+2+4 {
		t.Fatal(got)
	}
}

// B114: signals of a Go host pass while calls run, its handlers stay its own, and a write to a closed peer is an error as ever.
func Test_B114_signals_of_a_go_host_pass(t *testing.T) {
	got := make(chan os.Signal, 4096)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGURG)
	defer signal.Stop(got)
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	seq := written(t, scope, 1, 1, 64)
	stop := make(chan struct{})
	var storm sync.WaitGroup
	storm.Add(1)
	go func() {
		defer storm.Done()
		for {
			select {
			case <-stop:
				return
			default:
				for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGINT, syscall.SIGURG} {
					syscall.Kill(syscall.Getpid(), s)
				}
			}
		}
	}()
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for range 300 {
		c := emptyCache(0, 64)
		must[Result](t)(seq.Gather(ctx, c.rows()))
		if wrong := c.difference(func(uint64) int { return 1 }); wrong != "" {
			t.Fatal(wrong)
		}
	}
	ours, theirs := net.Pipe()
	theirs.Close()
	if _, err := ours.Write([]byte("x")); err == nil {
		t.Fatal("a write to a closed peer")
	}
	close(stop)
	storm.Wait()
	if len(got) == 0 {
		t.Fatal("the host's handler heard nothing")
	}
}

// B124: options are read and never changed; one value serves two stores at once.
func Test_B124_options_are_read_and_never_changed(t *testing.T) {
	shape := Shape{DType: F16, Layers: []Layer{{Count: 2, Kind: LayerFull, KVHeads: 1, KDim: 8, VDim: 8}}}
	options := ScopeOptions{Model: "m", Salt: []byte("salt"), Shape: &shape}
	before := fmt.Sprintf("%+v %+v", options, shape)
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			store, err := Open("mem:", &StoreOptions{MemoryBytes: 4 << 20})
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			if _, err = store.Scope(options); err != nil {
				t.Error(err)
			}
			other := options
			other.Shape = &testShape
			if _, err = store.Scope(other); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	if after := fmt.Sprintf("%+v %+v", options, shape); after != before {
		t.Fatalf("%s became %s", before, after)
	}
}
