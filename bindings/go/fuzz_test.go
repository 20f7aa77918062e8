package kvc

import (
	"errors"
	"testing"
	"unsafe"
)

// Any description of rows is refused with one line, or moves what it names and nothing outside its memory.
func FuzzGather(f *testing.F) {
	f.Add(uint32(0), uint32(1), uint64(0), uint64(4), uint64(0), uint64(0), uint64(0), uint32(0), uint64(0), uint16(256))
	f.Add(uint32(1), uint32(2), uint64(3), uint64(17), uint64(64), uint64(32), uint64(2), uint32(4), uint64(1), uint16(4096))
	f.Add(uint32(0), uint32(3), uint64(0), All, uint64(1<<63), uint64(1<<62), uint64(1<<61), uint32(1), uint64(7), uint16(1))
	store := openStore(f, nil)
	seq := written(f, openScope(f, store, "m"), 1, 1, 40)
	f.Fuzz(func(t *testing.T, layer, count uint32, begin, tokens, layerStride, tokenStride, headStride uint64, block uint32, slot uint64, extent uint16) {
		const guard = 64
		memory := make([]byte, int(extent)+2*guard)
		for i := range memory {
			memory[i] = 0xAB
		}
		array := Array{Memory: Of(memory[guard : guard+int(extent)]), LayerStride: layerStride, TokenStride: tokenStride, HeadStride: headStride}
		r := Rows{LayerBegin: layer, LayerCount: count, TokenBegin: begin, TokenCount: tokens, BlockTokens: block, SlotBegin: slot, K: array}
		if block != 0 {
			r.Blocks = []int32{1, 0, -1, 2}
		}
		if _, err := seq.Gather(background, r); err != nil {
			var failed *Error
			if !errors.As(err, &failed) || failed.Message == "" {
				t.Fatal(err)
			}
		}
		for i := range guard {
			if memory[i] != 0xAB || memory[len(memory)-1-i] != 0xAB {
				t.Fatalf("wrote outside its %d bytes: %+v", extent, r)
			}
		}
	})
}

// Any bytes may be looked at as elements, or are refused: never read beside them.
func FuzzAs(f *testing.F) {
	f.Add([]byte("12345678"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, from uint8) {
		data = data[min(int(from), len(data)):]
		halves, err := As[uint16](data)
		if (err == nil) != (len(data)%2 == 0 && (len(data) == 0 || uintptr(unsafe.Pointer(&data[0]))%2 == 0)) && len(data) > 0 {
			t.Fatal(len(data), err)
		}
		if err == nil && len(halves)*2 != len(data) {
			t.Fatal(len(halves), len(data))
		}
	})
}
