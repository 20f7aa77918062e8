package kvc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var background = context.Background()

// What the tests' model has: small, and no count equal to another.
const (
	layers      = 3
	heads       = 2
	kDim        = 8
	vDim        = 16
	chunkTokens = 16
)

var testShape = Shape{DType: F16, ChunkTokens: chunkTokens, Layers: []Layer{{Count: layers, Kind: LayerFull, KVHeads: heads, KDim: kDim, VDim: vDim}}}

func openStore(t testing.TB, options *StoreOptions) *Store {
	t.Helper()
	if options == nil {
		options = &StoreOptions{}
	}
	if options.MemoryBytes == 0 {
		options.MemoryBytes = 32 << 20
	}
	s, err := Open("mem:", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrStale) {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func openScope(t testing.TB, s *Store, model string) *Scope {
	t.Helper()
	scope, err := s.Scope(ScopeOptions{Model: model, Shape: &testShape})
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expectStatus wants a failure of one status whose one-line message has the words.
func expectStatus(t testing.TB, err error, status Status, words ...string) {
	t.Helper()
	if !errors.Is(err, status) {
		t.Fatalf("%v instead of %v", err, status)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%q does not say %q in one line", err, word)
		}
	}
}

// stamp is the element that belongs at a place and nowhere else: an integer that f16's bits hold exactly as they are.
func stamp(writer, side, layer, head, dim int, token uint64) uint16 {
	x := uint64(writer)*1000003 + token*8191 + uint64(layer)*131 + uint64(head)*31 + uint64(dim)*7 + uint64(side)*3
	return uint16(x*0x9E3779B97F4A7C15>>48) &^ 0x7C00 // no NaN, no infinity: conversions keep it
}

// rowsOf is the engine's cache of the tokens [begin, begin + count): layers, tokens, heads, dims, all packed.
type cache struct {
	begin, count uint64
	k, v         []uint16
}

func emptyCache(begin, count uint64) *cache {
	c := &cache{begin, count, make([]uint16, layers*count*heads*kDim), make([]uint16, layers*count*heads*vDim)}
	for i := range c.k {
		c.k[i] = 0xDEAD
	}
	for i := range c.v {
		c.v[i] = 0xDEAD
	}
	return c
}

func (c *cache) each(visit func(side, layer, head, dim int, token uint64, at *uint16)) {
	for layer := range layers {
		for t := range c.count {
			for head := range heads {
				row := (uint64(layer)*c.count+t)*heads + uint64(head)
				for d := range kDim {
					visit(0, layer, head, d, c.begin+t, &c.k[row*kDim+uint64(d)])
				}
				for d := range vDim {
					visit(1, layer, head, d, c.begin+t, &c.v[row*vDim+uint64(d)])
				}
			}
		}
	}
}

func stamped(writer int, begin, count uint64) *cache {
	c := emptyCache(begin, count)
	c.each(func(side, layer, head, dim int, token uint64, at *uint16) {
		*at = stamp(writer, side, layer, head, dim, token)
	})
	return c
}

func (c *cache) rows() Rows {
	return Rows{LayerCount: layers, TokenBegin: c.begin, TokenCount: c.count,
		K: Array{Memory: Of(c.k), LayerStride: c.count * heads * kDim * 2}, V: Array{Memory: Of(c.v), LayerStride: c.count * heads * vDim * 2}}
}

// difference says where the cache is not what the writer of each token wrote, "" where it is.
func (c *cache) difference(writer func(token uint64) int) string {
	wrong := ""
	c.each(func(side, layer, head, dim int, token uint64, at *uint16) {
		if want := stamp(writer(token), side, layer, head, dim, token); *at != want && wrong == "" {
			wrong = fmt.Sprintf("side %d layer %d head %d dim %d token %d: %#x, not %#x", side, layer, head, dim, token, *at, want)
		}
	})
	return wrong
}

func expectRows(t testing.TB, s *Seq, writer int, begin, count uint64) {
	t.Helper()
	c := emptyCache(begin, count)
	must[Result](t)(s.Gather(background, c.rows()))
	if wrong := c.difference(func(uint64) int { return writer }); wrong != "" {
		t.Fatal(wrong)
	}
}

func prompt(seed int32, count int) []int32 {
	out := make([]int32, count)
	for i := range out {
		out[i] = seed*100000 + int32(i)
	}
	return out
}

// written is a sequence with the stamps of a writer under the ids of a seed.
func written(t testing.TB, scope *Scope, writer int, seed int32, count int) *Seq {
	t.Helper()
	seq := must[*Seq](t)(scope.Create(nil))
	check(t, seq.Append(background, prompt(seed, count), stamped(writer, 0, uint64(count)).rows()))
	return seq
}
