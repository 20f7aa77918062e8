package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"kvc"
)

// layout is where K and V lie in llama.cpp's state of one sequence: ../llama_state.py says it, and nothing of it is taken on trust here either.
type layout struct {
	magic                    uint32
	transposed               bool
	layers, kvHeads, headDim int
}

const (
	headBytes, cellBytes, middleBytes, sectionBytes = 16, 12, 16, 12
	ggmlF16, elementBytes                           = 1, 2
)

var little = binary.LittleEndian

func (l *layout) rowBytes() int          { return l.kvHeads * l.headDim * elementBytes }
func (l *layout) stride(cells int) int   { return sectionBytes + cells*l.rowBytes() }
func (l *layout) kBegin(cells int) int   { return headBytes + cellBytes*cells + middleBytes }
func (l *layout) blobSize(cells int) int { return l.kBegin(cells) + 2*l.layers*l.stride(cells) }

// forge is a state of so many tokens, at positions 0, 1, ..., that lacks only the numbers: those are NaN.
func (l *layout) forge(cells int) []byte {
	blob := bytes.Repeat([]byte{0xFF}, l.blobSize(cells))
	out := blob[:0]
	for _, word := range []uint32{l.magic, 0, 1, uint32(cells)} {
		out = little.AppendUint32(out, word)
	}
	for i := range cells {
		out = little.AppendUint32(little.AppendUint32(little.AppendUint32(out, uint32(i)), 1), 0)
	}
	words := []uint32{0, uint32(l.layers), 0, 0}
	if l.transposed {
		words[0] = 1
	}
	for _, word := range words {
		out = little.AppendUint32(out, word)
	}
	for section := range 2 * l.layers {
		at := blob[l.kBegin(cells)+section*l.stride(cells):][:0]
		at = little.AppendUint32(at, ggmlF16)
		if l.transposed && section >= l.layers {
			little.AppendUint32(little.AppendUint32(at, elementBytes), uint32(l.kvHeads*l.headDim))
		} else {
			little.AppendUint64(at, uint64(l.rowBytes()))
		}
	}
	return blob
}

// rows are tokens [begin, end) of a state of so many cells, for kvc to read or to write in place.
func (l *layout) rows(blob []byte, cells, begin, end int) kvc.Rows {
	head, stride := uint64(l.headDim*elementBytes), uint64(l.stride(cells))
	k := kvc.Of(blob).From(uint64(l.kBegin(cells) + sectionBytes))
	byToken := kvc.Array{Memory: k, DType: kvc.F16, LayerStride: stride, TokenStride: uint64(l.rowBytes()), HeadStride: head, DimStride: elementBytes}
	v := byToken
	if l.transposed {
		v.TokenStride, v.HeadStride, v.DimStride = elementBytes, head*uint64(cells), elementBytes*uint64(cells)
	}
	v.Memory = k.From(uint64(l.layers) * stride)
	return kvc.Rows{LayerCount: uint32(l.layers), TokenBegin: uint64(begin), SlotBegin: uint64(begin), TokenCount: uint64(end - begin), K: byToken, V: v}
}

// learn sees the layout in a first state, of a few tokens, and compares every byte of it that is no number.
func learn(blob []byte, e *engine) (*layout, int) {
	l := &layout{layers: e.layers, kvHeads: e.kvHeads, headDim: e.headDim}
	cells := 0
	if len(blob) >= headBytes {
		l.magic, cells = little.Uint32(blob), int(little.Uint32(blob[12:]))
	}
	if cells == 0 || len(blob) < l.kBegin(cells) {
		panic(fmt.Errorf("llama.cpp state: %d bytes with %d cells", len(blob), cells))
	}
	l.transposed = little.Uint32(blob[l.kBegin(cells)-middleBytes:]) == 1
	if len(blob) != l.blobSize(cells) {
		panic(fmt.Errorf("llama.cpp state: %d bytes for %d cells, this layout has %d", len(blob), cells, l.blobSize(cells)))
	}
	wanted, payload := l.forge(cells), cells*l.rowBytes()
	for section := range 2 * l.layers {
		at := l.kBegin(cells) + section*l.stride(cells) + sectionBytes
		copy(wanted[at:at+payload], blob[at:at+payload])
	}
	if !bytes.Equal(wanted, blob) {
		panic(fmt.Errorf("llama.cpp state: of another layout"))
	}
	return l, cells
}
