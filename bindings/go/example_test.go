package kvc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"kvc"
)

// The cache of a model of 4 layers with 2 KV heads of 64 dims, f16.
func Example() {
	store, err := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	shape := kvc.Shape{DType: kvc.F16, Layers: []kvc.Layer{{Count: 4, Kind: kvc.LayerFull, KVHeads: 2, KDim: 64, VDim: 64}}}
	scope, err := store.Scope(kvc.ScopeOptions{Model: "example", Shape: &shape})
	if err != nil {
		log.Fatal(err)
	}
	defer scope.Close()

	const tokens, row = 200, 2 * 64 * 2                            // bytes of a token's row in one layer
	k, v := make([]byte, 4*tokens*row), make([]byte, 4*tokens*row) // the engine's cache
	rowsOf := func(begin, count uint64) kvc.Rows {
		return kvc.Rows{LayerCount: 4, TokenBegin: begin, TokenCount: count, SlotBegin: begin,
			K: kvc.Array{Memory: kvc.Of(k), LayerStride: tokens * row}, V: kvc.Array{Memory: kvc.Of(v), LayerStride: tokens * row}}
	}
	ctx, prompt := context.Background(), make([]int32, tokens)
	for range 2 {
		// The engine needs the logits of the last token: leave one to compute.
		seq, info, err := scope.Match(ctx, prompt, &kvc.SeqOptions{TokensMax: tokens - 1})
		if err != nil {
			log.Fatal(err)
		}
		if info.Tokens > 0 {
			if _, err = seq.Gather(ctx, rowsOf(0, info.Tokens)); err != nil {
				log.Fatal(err)
			}
		}
		// Here the engine computes k and v of the tokens from info.Tokens on.
		if err = seq.Append(ctx, prompt[info.Tokens:], rowsOf(info.Tokens, tokens-info.Tokens)); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d of %d tokens were here\n", info.Tokens, tokens)
		seq.Close()
	}
	// Output:
	// 0 of 200 tokens were here
	// 192 of 200 tokens were here
}

// Objects are values under keys that the engine makes by itself.
func ExampleScope_Put() {
	store, _ := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: 16 << 20})
	defer store.Close()
	scope, _ := store.Scope(kvc.ScopeOptions{Model: "example"})
	ctx := context.Background()
	fmt.Println(scope.Put(ctx, []byte("block 7"), []byte("rows")))
	value, err := scope.Get(ctx, []byte("block 7"))
	fmt.Println(string(value), err)
	_, err = scope.Get(ctx, []byte("block 8"))
	fmt.Println(errors.Is(err, kvc.ErrNotFound))
	// Output:
	// <nil>
	// rows <nil>
	// true
}

// Many calls at once: each is started, then waited for.
func ExampleQueue() {
	store, _ := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: 16 << 20})
	defer store.Close()
	scope, _ := store.Scope(kvc.ScopeOptions{Model: "example"})
	queue, err := store.Queue(kvc.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	var calls []*kvc.Call
	for i := range 3 {
		item := []kvc.Object{{Key: []byte{byte(i)}, Value: kvc.Of([]byte("value"))}}
		call, err := queue.PutAll(scope, item, nil)
		if err != nil {
			log.Fatal(err)
		}
		calls = append(calls, call)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, call := range calls {
		result, err := call.Wait(ctx)
		fmt.Println(result.Operation, result.Done, err)
	}
	// Output:
	// ObjectPut 1 <nil>
	// ObjectPut 1 <nil>
	// ObjectPut 1 <nil>
}
