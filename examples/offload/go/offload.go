// Offload and resume, in Go: what offload.c does, and the same files.
//
//	PKG_CONFIG_PATH=... go build -o offload ./offload/go    (in examples/)
//	./offload save FILE DUMP
//	./offload resume FILE DUMP
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"examples/dump"
	"kvc"
)

const savedTokens = 300

var ctx = context.Background()

// rows are the tokens [begin, begin + count) where the engine keeps them.
func rows(d *dump.Dump, begin, count int) kvc.Rows {
	row := uint64(d.Dim * 2)
	side := func(data []byte) kvc.Array {
		return kvc.Array{Memory: kvc.Of(data), TokenStride: row, HeadStride: uint64(d.Tokens) * row, LayerStride: uint64(d.Heads*d.Tokens) * row}
	}
	return kvc.Rows{LayerCount: uint32(d.Layers), TokenBegin: uint64(begin), SlotBegin: uint64(begin), TokenCount: uint64(count), K: side(d.K), V: side(d.V)}
}

// same says whether the first tokens of one side are those in an array that has tokens first.
func same(d *dump.Dump, side, got []byte) bool {
	row := d.Dim * 2
	for l := range d.Layers {
		for t := range savedTokens {
			for h := range d.Heads {
				to, from := ((l*savedTokens+t)*d.Heads+h)*row, ((l*d.Heads+h)*d.Tokens+t)*row
				if !bytes.Equal(got[to:to+row], side[from:from+row]) {
					return false
				}
			}
		}
	}
	return true
}

func save(scope *kvc.Scope, d *dump.Dump, path string) error {
	seq, err := scope.Create(nil)
	if err != nil {
		return err
	}
	defer seq.Close()
	if err = seq.Append(ctx, d.IDs[:savedTokens], rows(d, 0, savedTokens)); err != nil {
		return err
	}
	if err = seq.Save(ctx, path); err != nil {
		return err
	}
	fmt.Printf("%d tokens put aside\n", savedTokens)
	return nil
}

func resume(scope *kvc.Scope, d *dump.Dump, path string) error {
	seq, err := scope.Restore(ctx, path, nil)
	if err != nil {
		return err
	}
	defer seq.Close()
	layer := savedTokens * d.Heads * d.Dim * 2 // tokens first
	k, v := make([]byte, d.Layers*layer), make([]byte, d.Layers*layer)
	packed := kvc.Rows{LayerCount: uint32(d.Layers), TokenCount: savedTokens,
		K: kvc.Array{Memory: kvc.Of(k), LayerStride: uint64(layer)}, V: kvc.Array{Memory: kvc.Of(v), LayerStride: uint64(layer)}}
	if _, err = seq.Gather(ctx, packed); err != nil {
		return err
	}
	equal := same(d, d.K, k) && same(d, d.V, v)
	if err = seq.Append(ctx, d.IDs[savedTokens:], rows(d, savedTokens, d.Tokens-savedTokens)); err != nil { // computed now
		return err
	}
	_, info, err := scope.Match(ctx, d.IDs, &kvc.SeqOptions{Flags: kvc.SeqPeek})
	if err != nil {
		return err
	}
	verdict := map[bool]string{true: "bit for bit", false: "CHANGED"}[equal]
	fmt.Printf("%d of %d tokens came back, %s; the next request finds %d\n", savedTokens, d.Tokens, verdict, info.Tokens)
	if !equal {
		os.Exit(1)
	}
	return nil
}

func run(what, file, path string) error {
	d, err := dump.Read(path, savedTokens+1)
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
	scope, err := store.Scope(kvc.ScopeOptions{Model: "offload", Shape: &shape})
	if err != nil {
		return err
	}
	defer scope.Close()
	if what == "save" {
		return save(scope, d, file)
	}
	return resume(scope, d, file)
}

func main() {
	if len(os.Args) != 4 || (os.Args[1] != "save" && os.Args[1] != "resume") {
		fmt.Fprintln(os.Stderr, "usage: offload save|resume FILE DUMP")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "offload:", err)
		os.Exit(1)
	}
}
