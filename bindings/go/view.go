package kvc

import (
	"runtime"
	"unsafe"

	"kvc/internal/raw"
)

// View is a stored page, lent in place until Close: K and V are the store's memory, which must not be written, nor read after Close.
type View struct {
	handle
	rows Rows
	K, V []byte
}

// View lends the page of one layer that holds a token.  The page stays as it is, whatever becomes of the sequence.
func (s *Seq) View(layer uint32, token uint64, flags ViewFlags) (*View, error) {
	defer runtime.KeepAlive(s)
	out, c := new(uintptr), new(cRows)
	c.size = uint32(unsafe.Sizeof(*c))
	err := s.call(func(e *cError) int32 {
		return raw.Kvc_view_acquire(out, unsafe.Pointer(c), s.token, layer, token, uint32(flags), unsafe.Pointer(e))
	})
	if err != nil {
		return nil, err
	}
	v := &View{K: unsafe.Slice((*byte)(c.k.data), c.k.bytes), V: unsafe.Slice((*byte)(c.v.data), c.v.bytes)}
	v.rows = Rows{LayerBegin: c.layerBegin, LayerCount: c.layerCount, HeadBegin: c.headBegin, HeadCount: c.headCount, TokenBegin: c.tokenBegin, TokenCount: c.tokenCount,
		SlotBegin: c.slotBegin, K: arrayOf(&c.k), V: arrayOf(&c.v)}
	return hold(v, &v.handle, s.store.gate, s.store, viewKind, *out, nil), nil
}

func arrayOf(c *cArray) Array {
	return Array{Memory: At(c.data, c.bytes), LayerStride: c.layerStride, BlockStride: c.blockStride, TokenStride: c.tokenStride, HeadStride: c.headStride, DimStride: c.dimStride,
		DType: c.dtype, DimGroup: c.dimGroup}
}

// Rows say which layer, heads and tokens the page has and where its elements lie: ready for an Append elsewhere.
func (v *View) Rows() Rows { return v.rows }

// Close ends the view; its memory may be reused at once.
func (v *View) Close() error {
	if v == nil {
		return nil
	}
	defer runtime.KeepAlive(v)
	err := v.close()
	if err == nil {
		v.K, v.V, v.rows = nil, nil, Rows{} // the memory may be another's now
	}
	return err
}
