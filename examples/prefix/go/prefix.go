// The prefix cache of a serving engine, in Go: what prefix.c does, whose first comment says it, and the same output.
//
//	PKG_CONFIG_PATH=... go build -o prefix ./prefix/go    (in examples/)
//	./prefix DUMP
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"examples/dump"
	"kvc"
)

const (
	texts, tokens       = 3, 512
	blocks, blockTokens = 64, 16
	table               = tokens / blockTokens
	answer, poison      = 48, 0xA5
)

type request struct {
	what                 string
	tenant, text, tokens int
	second               int // the text of a second answer; 0: none
}

var (
	ctx      = context.Background()
	partsAt  = [texts]int{tokens, 200, 416}
	requests = []request{
		{"A, first turn", 0, 0, 300, 0}, {"B, same system prompt", 0, 1, 280, 0}, {"A, two answers", 0, 0, 416, 2},
		{"A, goes on from one", 0, 0, 500, 0}, {"A, from the other", 0, 2, 512, 0}, {"the same again", 0, 2, 512, 0},
		{"B, second turn", 0, 1, 400, 0}, {"another tenant", 1, 0, 300, 0}, {"the same again", 1, 0, 300, 0},
	}
)

type engine struct {
	*dump.Dump
	row  int // bytes of a head
	ids  [texts][]int32
	pool []byte // [layers][K, V][blocks][16][heads][dim]
}

func newEngine(d *dump.Dump) *engine {
	e := &engine{Dump: d, row: d.Dim * 2}
	for text := range e.ids {
		e.ids[text] = append([]int32(nil), d.IDs[:tokens]...)
		for t := partsAt[text]; t < tokens; t++ {
			e.ids[text][t] += int32(text)
		}
	}
	e.pool = make([]byte, d.Layers*2*blocks*blockTokens*d.Heads*e.row)
	return e
}

// computed is what the engine computes for a head of a token.
func (e *engine) computed(text, layer, side, token, head int) []byte {
	if token >= partsAt[text] {
		token = (token + text*e.Tokens/4) % e.Tokens
	}
	at := ((layer*e.Heads+head)*e.Tokens + token) * e.row
	return [2][]byte{e.K, e.V}[side][at : at+e.row]
}

// pooled is where its pool has that.
func (e *engine) pooled(blockTable []int32, layer, side, token, head int) []byte {
	block := (layer*2+side)*blocks + int(blockTable[token/blockTokens])
	at := ((block*blockTokens+token%blockTokens)*e.Heads + head) * e.row
	return e.pool[at : at+e.row]
}

// each visits the heads of tokens, in the order in which a difference is looked for.
func (e *engine) each(begin, end int, visit func(layer, side, token, head int) bool) {
	for l := range e.Layers {
		for side := range 2 {
			for t := begin; t < end; t++ {
				for h := range e.Heads {
					if !visit(l, side, t, h) {
						return
					}
				}
			}
		}
	}
}

func (e *engine) compute(blockTable []int32, text, begin, end int) {
	e.each(begin, end, func(layer, side, token, head int) bool {
		copy(e.pooled(blockTable, layer, side, token, head), e.computed(text, layer, side, token, head))
		return true
	})
}

func (e *engine) check(blockTable []int32, r *request, end int) (err error) {
	e.each(0, end, func(layer, side, token, head int) bool {
		if !bytes.Equal(e.pooled(blockTable, layer, side, token, head), e.computed(r.text, layer, side, token, head)) {
			err = fmt.Errorf("%s: %c of token %d, layer %d is not what was computed", r.what, "kv"[side], token, layer)
		}
		return err == nil
	})
	return err
}

// rows are the tokens [begin, begin + count) in the pool.
func (e *engine) rows(blockTable []int32, begin, count int) kvc.Rows {
	block := uint64(blockTokens * e.Heads * e.row)
	side, pool := blocks*block, kvc.Of(e.pool)
	return kvc.Rows{LayerCount: uint32(e.Layers), TokenBegin: uint64(begin), SlotBegin: uint64(begin), TokenCount: uint64(count), // equal: the table is of the whole sequence
		BlockTokens: blockTokens, Blocks: blockTable,
		K: kvc.Array{Memory: pool, LayerStride: 2 * side, BlockStride: block}, V: kvc.Array{Memory: pool.From(side), LayerStride: 2 * side, BlockStride: block}}
}

func (e *engine) append(seq *kvc.Seq, blockTable []int32, text, begin, end int) error {
	e.compute(blockTable, text, begin, end)
	return seq.Append(ctx, e.ids[text][begin:end], e.rows(blockTable, begin, end-begin))
}

// answerTwice gives two answers to one prompt.  In the pool they share the blocks of the prompt, which are full, and have blocks of their own behind.
func (e *engine) answerTwice(seq *kvc.Seq, r *request, blockTable, free []int32) error {
	full := r.tokens / blockTokens
	second := append(append([]int32(nil), blockTable[:full]...), free[full:]...)
	fork, err := seq.Fork(kvc.All)
	if err != nil {
		return err
	}
	defer fork.Close()
	for t := r.tokens; t < r.tokens+answer; t++ {
		if err = e.append(seq, blockTable, r.text, t, t+1); err == nil {
			err = e.append(fork, second, r.second, t, t+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) serve(scope *kvc.Scope, number int) (found int, err error) {
	r := &requests[number]
	all := make([]int32, blocks) // of the pool, shuffled: the first half is the table, the other is free
	for i := range all {
		all[i] = int32((37*i + 11*number) % blocks)
	}
	for i := range e.pool {
		e.pool[i] = poison
	}
	// The engine needs the logits of the last token: leave one to compute.
	seq, info, err := scope.Match(ctx, e.ids[r.text][:r.tokens], &kvc.SeqOptions{TokensMax: uint64(r.tokens - 1)})
	if err != nil {
		return 0, err
	}
	defer seq.Close()
	if found = int(info.Tokens); found > 0 {
		if _, err = seq.Gather(ctx, e.rows(all[:table], 0, found)); err != nil {
			return 0, err
		}
	}
	if err = e.check(all, r, found); err != nil {
		return 0, err
	}
	if err = e.append(seq, all[:table], r.text, found, r.tokens); err == nil && r.second != 0 {
		err = e.answerTwice(seq, r, all[:table], all[table:])
	}
	fmt.Printf("%-21s  %3d tokens, %3d found, %3d computed\n", r.what, r.tokens, found, r.tokens-found)
	return found, err
}

func run(path string) error {
	d, err := dump.Read(path, tokens)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	store, err := kvc.Open("mem:", nil)
	if err != nil {
		return err
	}
	defer store.Close()
	shape := kvc.Shape{DType: kvc.F16, Rope: kvc.RopeHalves,
		Layers: []kvc.Layer{{Count: uint32(d.Layers), Kind: kvc.LayerFull, KVHeads: uint32(d.Heads), KDim: uint32(d.Dim), VDim: uint32(d.Dim)}}}
	var scopes []*kvc.Scope
	for _, tenant := range []string{"one", "two"} {
		scope, err := store.Scope(kvc.ScopeOptions{Model: "prefix", Tenant: tenant, Shape: &shape})
		if err != nil {
			return err
		}
		defer scope.Close()
		scopes = append(scopes, scope)
	}
	e, found, all := newEngine(d), 0, 0
	for i := range requests {
		n, err := e.serve(scopes[requests[i].tenant], i)
		if err != nil {
			return err
		}
		found, all = found+n, all+requests[i].tokens
	}
	fmt.Printf("%d of %d tokens were found, %d %%\n", found, all, 100*found/all)
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prefix DUMP")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "prefix:", err)
		os.Exit(1)
	}
}
