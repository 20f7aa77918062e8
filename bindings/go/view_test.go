package kvc

import "testing"

// A view has the page's very elements where its strides say, and they stay when sequence and scope are gone and the sequence wrote on.
func TestViews(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	seq := written(t, scope, 1, 1, 20)
	view := must[*View](t)(seq.View(1, 5, 0))
	check(t, seq.Truncate(0))
	check(t, seq.Append(background, prompt(2, 20), stamped(2, 0, 20).rows()))
	check(t, seq.Close())
	check(t, scope.Close())
	rows := view.Rows()
	if rows.LayerBegin != 1 || rows.TokenBegin != 0 || rows.TokenCount != 16 {
		t.Fatalf("%+v", rows)
	}
	stamped(1, 0, 16).each(func(side, layer, head, dim int, token uint64, at *uint16) {
		if layer != 1 {
			return
		}
		array, data := &rows.K, view.K
		if side == 1 {
			array, data = &rows.V, view.V
		}
		halves := must[[]uint16](t)(As[uint16](data))
		if got := halves[(token*array.TokenStride+uint64(head)*array.HeadStride+uint64(dim)*array.DimStride)/2]; got != *at {
			t.Fatalf("side %d head %d dim %d token %d: %#x, not %#x", side, head, dim, token, got, *at)
		}
	})
	expectStatus(t, store.Close(), ErrBusy)
	check(t, view.Close())
	expectStatus(t, view.Close(), ErrStale)
}

// The rows of a view go into an append as they are.
func TestViewIntoAppend(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	from, to := written(t, scope, 1, 1, 16), must[*Seq](t)(scope.Create(&SeqOptions{Flags: SeqPrivate}))
	for layer := range uint32(layers) {
		view := must[*View](t)(from.View(layer, 0, 0))
		check(t, to.Append(background, nil, view.Rows()))
		check(t, view.Close())
	}
	expectRows(t, to, 1, 0, 16)
	_, err := from.View(layers, 0, 0)
	expectStatus(t, err, ErrRange)
	frame := must[*View](t)(from.View(0, 0, ViewFrame))
	if len(frame.K) != 512 || len(frame.V) == 0 {
		t.Fatal(len(frame.K), len(frame.V))
	}
	check(t, frame.Close())
}
