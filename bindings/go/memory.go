package kvc

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// All as a count or position: to the end, every one.
const All uint64 = all

// Forever as a duration: no deadline, no lapse.
const Forever time.Duration = math.MaxInt64

// Element is what rows may lie in: f16 and bf16 are the bits of uint16.
type Element interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~float32
}

// Memory is a run of bytes: of a slice, or of anything.
type Memory struct {
	data  unsafe.Pointer
	bytes uint64
}

// Of is the memory of a slice, not a copy.
func Of[T Element](s []T) Memory {
	var element T
	return Memory{unsafe.Pointer(unsafe.SliceData(s)), uint64(len(s)) * uint64(unsafe.Sizeof(element))}
}

// At is memory that no slice is over: of C, of a mapped file.
func At(data unsafe.Pointer, bytes uint64) Memory { return Memory{data, bytes} }

// From is the memory from a byte on, as V in one pool with K.  Past the end it is empty.
func (m Memory) From(offset uint64) Memory {
	if m.data == nil || offset >= m.bytes {
		return Memory{}
	}
	return Memory{unsafe.Add(m.data, offset), m.bytes - offset}
}

// Len is its extent in bytes.
func (m Memory) Len() uint64 { return m.bytes }

// As looks at bytes as elements of another type, in place: what a [View] lends, or a []byte that rows came into.
func As[T Element](data []byte) ([]T, error) {
	var element T
	size := uint64(unsafe.Sizeof(element))
	first := unsafe.Pointer(unsafe.SliceData(data))
	if uint64(len(data))%size != 0 || uintptr(first)%uintptr(size) != 0 {
		return nil, refused(ErrArgument, fmt.Sprintf("data: %d bytes at %p are no run of elements of %d bytes", len(data), first, size))
	}
	return unsafe.Slice((*T)(first), uint64(len(data))/size), nil
}

// Array says where the elements of K, or of V, lie (kvc_array): the element of layer l, slot s, head h and dim d at
//
//	l*LayerStride + block(s)*BlockStride + in_block(s)*TokenStride + h*HeadStride + d*DimStride
//
// bytes of Memory.  A stride of 0 is the packed one; LayerStride has no default when a run has several layers.
type Array struct {
	Memory
	LayerStride, BlockStride, TokenStride, HeadStride, DimStride uint64
	DType                                                        DType  // 0: the shape's
	DimGroup                                                     uint32 // elements of a head that lie together; 0: 1
}

// Rows are rows of K and V: which layers, heads and tokens, and where they lie in the caller's memory (kvc_rows, whose comment has a table of the
// layouts of engines).
type Rows struct {
	LayerBegin, LayerCount uint32 // no default for the count: 0 is refused
	HeadBegin, HeadCount   uint32 // 0: all of the sequence's part
	TokenBegin, TokenCount uint64 // no default for the count; gather, prefetch: All
	TokenList              []uint64
	TokenUnit              uint32  // tokens an entry of TokenList stands for; 0: 1
	BlockTokens            uint32  // slots a block; 0: no block table
	Blocks                 []int32 // the block table
	SlotBegin              uint64  // the slot of the first token
	K, V                   Array
}

func (a *Array) fill(c *cArray, pins *runtime.Pinner) {
	pin(pins, a.data)
	*c = cArray{a.data, a.bytes, a.LayerStride, a.BlockStride, a.TokenStride, a.HeadStride, a.DimStride, a.DType, a.DimGroup}
}

// fill makes the rows of C, which may be looked at while what they point to is pinned.
func (r *Rows) fill(c *cRows, pins *runtime.Pinner) {
	*c = cRows{size: uint32(unsafe.Sizeof(*c)), layerBegin: r.LayerBegin, layerCount: r.LayerCount, headBegin: r.HeadBegin, headCount: r.HeadCount,
		tokenBegin: r.TokenBegin, tokenCount: r.TokenCount, tokenUnit: r.TokenUnit, blockTokens: r.BlockTokens, slotBegin: r.SlotBegin}
	if r.TokenList != nil {
		c.tokenList = pinned(pins, r.TokenList)
		c.tokenCount = uint64(len(r.TokenList))
	}
	if r.Blocks != nil {
		c.blocks, c.blockCount = pinned(pins, r.Blocks), uint64(len(r.Blocks))
	}
	r.K.fill(&c.k, pins)
	r.V.fill(&c.v, pins)
}

func fillRows(rows []Rows, pins *runtime.Pinner) []cRows {
	out := make([]cRows, len(rows))
	for i := range rows {
		rows[i].fill(&out[i], pins)
	}
	return out
}

// pin keeps memory where it is; what is not Go's stays there by itself.
func pin(pins *runtime.Pinner, data unsafe.Pointer) {
	if data != nil {
		pins.Pin(data)
	}
}

func pinned[T any](pins *runtime.Pinner, s []T) unsafe.Pointer {
	data := unsafe.Pointer(unsafe.SliceData(s))
	if len(s) == 0 {
		return nil
	}
	pin(pins, data)
	return data
}

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return unsafe.SliceData(s)
}

// cString gives C a text; "" is NULL, which is "" there too.
func cString(pins *runtime.Pinner, name, text string) (unsafe.Pointer, error) {
	if text == "" {
		return nil, nil
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return nil, refused(ErrArgument, fmt.Sprintf("%s: a zero at byte %d, which C would take for its end", name, at))
	}
	return pinned(pins, append([]byte(text), 0)), nil
}

// milliseconds rounds up: a lease is never shorter than asked for.
func milliseconds(name string, d time.Duration) (uint64, error) {
	return units(name, d, time.Millisecond)
}

func units(name string, d, unit time.Duration) (uint64, error) {
	switch {
	case d < 0:
		return 0, refused(ErrArgument, fmt.Sprintf("%s: %v is no time from now", name, d))
	case d == Forever:
		return forever, nil
	}
	return uint64((d-1)/unit) + min(1, uint64(d)), nil
}
