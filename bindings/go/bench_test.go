package kvc

import (
	"encoding/binary"
	"testing"
)

// One object of 4 KiB a call, of 4096 that are there.
func BenchmarkGet4K(b *testing.B) {
	scope := must[*Scope](b)(openStore(b, &StoreOptions{MemoryBytes: 64 << 20}).Scope(ScopeOptions{Model: "bench"}))
	keys, data := make([][]byte, 4096), make([]byte, 4096)
	for i := range keys {
		keys[i] = binary.LittleEndian.AppendUint64(nil, uint64(i))
		check(b, scope.Put(background, keys[i], data))
	}
	b.ReportAllocs()
	for i := range b.N {
		if n, err := scope.GetInto(background, keys[i*2654435761%4096], data); n != 4096 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// Rows of 20 tokens through the store's queue, as a context that may end has it.
func BenchmarkGather(b *testing.B) {
	seq := written(b, openScope(b, openStore(b, nil), "m"), 1, 1, 20)
	rows := emptyCache(0, 20).rows()
	b.ReportAllocs()
	for range b.N {
		must[Result](b)(seq.Gather(background, rows))
	}
}
