package kvc

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// place is where an array's element lies, by the formula of kvc/types.h, computed here.
func place(a *Array, r *Rows, slot, layer, head, dim uint64) uint64 {
	block, inBlock := uint64(0), slot
	if r.BlockTokens != 0 {
		block, inBlock = uint64(r.Blocks[slot/uint64(r.BlockTokens)]), slot%uint64(r.BlockTokens)
	}
	return layer*a.LayerStride + block*a.BlockStride + inBlock*a.TokenStride + head*a.HeadStride + dim*a.DimStride
}

// The layouts of engines, each with every stride said.
func engineLayouts(count uint64) map[string]func(dim uint64) (Rows, Array, uint64) {
	blocks := (count + 15) / 16
	return map[string]func(dim uint64) (Rows, Array, uint64){
		"heads first, as transformers": func(dim uint64) (Rows, Array, uint64) {
			a := Array{DimStride: 2, TokenStride: dim * 2, HeadStride: count * dim * 2, LayerStride: heads * count * dim * 2}
			return Rows{}, a, layers * heads * count * dim * 2
		},
		"transposed, as llama.cpp's V": func(dim uint64) (Rows, Array, uint64) {
			a := Array{DimStride: count * 2, TokenStride: 2, HeadStride: dim * count * 2, LayerStride: heads * dim * count * 2}
			return Rows{}, a, layers * heads * count * dim * 2
		},
		"a pool of blocks, as vLLM": func(dim uint64) (Rows, Array, uint64) {
			table := make([]int32, blocks)
			for i, at := range rand.New(rand.NewPCG(count, dim)).Perm(int(blocks) + 2)[:blocks] {
				table[i] = int32(at)
			}
			block := 16 * heads * dim * 2
			a := Array{DimStride: 2, HeadStride: dim * 2, TokenStride: heads * dim * 2, BlockStride: block, LayerStride: (blocks + 2) * block}
			return Rows{BlockTokens: 16, Blocks: table}, a, layers * (blocks + 2) * block
		},
	}
}

// Rows come out in the layout that is asked for, element by element, and nothing else of the memory is written.
func TestLayoutsOfEngines(t *testing.T) {
	const count = 37
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, count)
	for name, layout := range engineLayouts(count) {
		t.Run(name, func(t *testing.T) {
			r, k, kBytes := layout(kDim)
			_, v, vBytes := layout(vDim)
			memory := [2][]byte{make([]byte, kBytes), make([]byte, vBytes)}
			for _, m := range memory {
				for i := range m {
					m[i] = 0xAB
				}
			}
			if r.Blocks != nil { // one table for both sides
				v.BlockStride = 16 * heads * vDim * 2
			}
			r.LayerCount, r.TokenCount = layers, count
			k.Memory, v.Memory = Of(memory[0]), Of(memory[1])
			r.K, r.V = k, v
			must[Result](t)(seq.Gather(background, r))
			written := 0
			stamped(1, 0, count).each(func(side, layer, head, dim int, token uint64, at *uint16) {
				array := [2]*Array{&r.K, &r.V}[side]
				i := place(array, &r, token, uint64(layer), uint64(head), uint64(dim))
				if got := binary.LittleEndian.Uint16(memory[side][i:]); got != *at {
					t.Fatalf("side %d layer %d head %d dim %d token %d: %#x, not %#x", side, layer, head, dim, token, got, *at)
				}
				memory[side][i], memory[side][i+1] = 0xAB, 0xAB
				written++
			})
			for side, m := range memory {
				for i, b := range m {
					if b != 0xAB {
						t.Fatalf("side %d byte %d was written", side, i)
					}
				}
			}
		})
	}
}

// Rows become []float32 on the way, to the very values of the halves.
func TestRowsBecomeFloats(t *testing.T) {
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 20)
	k := make([]float32, layers*20*heads*kDim)
	r := Rows{LayerCount: layers, TokenCount: 20, K: Array{Memory: Of(k), LayerStride: 20 * heads * kDim * 4, DType: F32}}
	must[Result](t)(seq.Gather(background, r))
	for i, half := range stamped(1, 0, 20).k {
		if want := halfValue(half); k[i] != want {
			t.Fatalf("element %d: %g, not %g", i, k[i], want)
		}
	}
}

func halfValue(bits uint16) float32 {
	sign, exponent, fraction := float64(1-2*int(bits>>15)), int(bits>>10&31), float64(bits&1023)
	if exponent == 0 {
		return float32(sign * math.Ldexp(fraction, -24))
	}
	return float32(sign * math.Ldexp(1+fraction/1024, exponent-15))
}

// K and V may lie in one pool; a list names single tokens; an odd extent and a stride that makes elements meet are refused.
func TestPoolsListsAndBadStrides(t *testing.T) {
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 20)
	pool := make([]uint16, 3*heads*(kDim+vDim))
	r := Rows{LayerCount: 1, TokenList: []uint64{19, 0, 7}, K: Array{Memory: Of(pool)}, V: Array{Memory: Of(pool).From(3 * heads * kDim * 2)}}
	must[Result](t)(seq.Gather(background, r))
	for i, token := range r.TokenList {
		for d := range kDim {
			if got, want := pool[i*heads*kDim+d], stamp(1, 0, 0, 0, d, token); got != want {
				t.Fatalf("token %d dim %d: %#x, not %#x", token, d, got, want)
			}
		}
	}
	if Of(pool).From(1<<40).Len() != 0 {
		t.Fatal("memory past its end")
	}
	r.K.TokenStride = 2
	_, err := seq.Gather(background, r)
	expectStatus(t, err, ErrArgument, "token_stride")
	_, err = seq.Gather(background, Rows{LayerCount: 1, TokenCount: 20})
	expectStatus(t, err, ErrArgument, "nothing to move")
	_, err = As[uint16](make([]byte, 3))
	expectStatus(t, err, ErrArgument, "3 bytes")
	memory := make([]byte, 9)
	if _, err = As[uint16](memory[1:9]); uintptr(unsafe.Pointer(&memory[1]))%2 == 1 && err == nil {
		t.Fatal("odd memory became halves")
	}
}
