// What bench.c does, from Go.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"kvc"
)

const (
	value                     = 4096
	heads, dim, tokens        = 8, 128, 256
	side                      = heads * dim * tokens * 2
	seed1, seed2       uint64 = 6364136223846793005, 1442695040888963407
)

var (
	ctx    = context.Background()
	memory = make([]byte, 2*side)
	state  = uint64(1)
)

func must(err error) {
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

func next(count uint64) uint64 {
	state = state*seed1 + seed2
	return (state >> 33) % count
}

func gets(scope *kvc.Scope, bytes uint64) func() {
	count, key := bytes/value, make([]byte, 8)
	for i := range count {
		memory[0] = byte(i)
		binary.LittleEndian.PutUint64(key, i)
		must(scope.Put(ctx, key, memory[:value]))
	}
	return func() {
		binary.LittleEndian.PutUint64(key, next(count))
		_, err := scope.GetInto(ctx, key, memory[:value])
		must(err)
	}
}

func gathers(scope *kvc.Scope, bytes uint64) func() {
	var seqs []*kvc.Seq
	rows := kvc.Rows{LayerCount: 1, TokenCount: tokens, K: kvc.Array{Memory: kvc.Of(memory[:side])}, V: kvc.Array{Memory: kvc.Of(memory[side:])}}
	for i := range bytes / (2 * side) {
		seq, err := scope.Create(&kvc.SeqOptions{Flags: kvc.SeqPrivate, Lease: kvc.Forever})
		must(err)
		memory[0] = byte(i)
		must(seq.Append(ctx, nil, rows))
		seqs = append(seqs, seq)
	}
	return func() {
		_, err := seqs[next(uint64(len(seqs)))].Gather(ctx, rows)
		must(err)
	}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: bench get_4k|gather_1m SECONDS WORKING_SET_MIB")
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	must(err)
	mib, err := strconv.ParseUint(os.Args[3], 10, 64)
	must(err)
	bytes := mib << 20
	store, err := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: bytes + bytes/4 + 64<<20, SeqMax: 1 << 20})
	must(err)
	shape := kvc.Shape{DType: kvc.F16, Layers: []kvc.Layer{{Count: 1, Kind: kvc.LayerFull, KVHeads: heads, KDim: dim, VDim: dim}}}
	scope, err := store.Scope(kvc.ScopeOptions{Model: "bench", Shape: &shape})
	must(err)
	call, calls := gathers, 8
	if os.Args[1] == "get_4k" {
		call, calls = gets, 1000
	}
	one := call(scope, bytes)
	var batches []time.Duration
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); {
		from := time.Now()
		for range calls {
			one()
		}
		batches = append(batches, time.Since(from))
	}
	slices.Sort(batches)
	fmt.Printf("%.1f\n", float64(batches[len(batches)/2])/float64(calls))
}
