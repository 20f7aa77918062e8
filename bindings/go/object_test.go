package kvc

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Puts, gets, deletes and lists are those of a map that is written once a key.
func TestObjectsAgainstAMap(t *testing.T) {
	scope := must[*Scope](t)(openStore(t, nil).Scope(ScopeOptions{Model: "objects"}))
	model, random := map[string][]byte{}, rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		key := []byte(fmt.Sprint("key ", random.IntN(200)))
		value := bytes.Repeat([]byte{byte(random.IntN(3))}, random.IntN(5000))
		held, known := model[string(key)]
		switch random.IntN(4) {
		case 0:
			err := scope.Put(background, key, value)
			if known && !bytes.Equal(held, value) {
				expectStatus(t, err, ErrExists)
			} else {
				check(t, err)
				model[string(key)] = value
			}
		case 1:
			got, err := scope.Get(background, key)
			if !known {
				expectStatus(t, err, ErrNotFound)
			} else if check(t, err); !bytes.Equal(got, held) {
				t.Fatalf("%s: %d bytes, not %d", key, len(got), len(held))
			}
		case 2:
			if got := must[bool](t)(scope.Exists(background, key)); got != known {
				t.Fatalf("%s: %v", key, got)
			}
		case 3:
			if err := scope.Delete(background, key); known {
				check(t, err)
				delete(model, string(key))
			} else {
				expectStatus(t, err, ErrNotFound)
			}
		}
	}
	var listed []string
	for entry, err := range scope.All(background) {
		check(t, err)
		listed = append(listed, string(entry.Key()))
		if entry.ValueSize != uint64(len(model[string(entry.Key())])) || entry.Tier != TierHost {
			t.Fatalf("%s: %+v", entry.Key(), entry)
		}
	}
	if want := slices.Sorted(maps.Keys(model)); !slices.Equal(listed, want) {
		t.Fatalf("%d listed of %d", len(listed), len(want))
	}
	got := must[[]ObjectEntry](t)(scope.List(background, []byte(listed[2]), 2))
	if len(got) != 2 || string(got[0].Key()) != listed[3] {
		t.Fatalf("%+v", got)
	}
}

// A value is put and got in parts; memory that is longer is left alone behind, shorter is refused with the size.
func TestPartsAndSizes(t *testing.T) {
	scope := must[*Scope](t)(openStore(t, nil).Scope(ScopeOptions{Model: "objects"}))
	halves := []uint16{1, 2, 3}
	must[Result](t)(scope.PutAll(background, []Object{{Key: []byte("k"), Parts: []Memory{Of([]byte("head")), Of(halves)}}}, nil))
	front, rest := make([]byte, 1), bytes.Repeat([]byte{9}, 12)
	items := []Object{{Key: []byte("k"), Parts: []Memory{Of(front), Of(rest)}}}
	must[Result](t)(scope.GetAll(background, items, nil))
	if want := []byte{'e', 'a', 'd', 1, 0, 2, 0, 3, 0, 9, 9, 9}; front[0] != 'h' || !bytes.Equal(rest, want) || items[0].ValueSize != 10 {
		t.Fatalf("%q %v %+v", front, rest, items[0])
	}
	short := []byte{7, 7}
	size, err := scope.GetInto(background, []byte("k"), short)
	expectStatus(t, err, ErrRange)
	if size != 10 || short[0] != 7 {
		t.Fatalf("%d %v", size, short)
	}
	check(t, scope.Put(background, []byte("empty"), nil))
	if got := must[[]byte](t)(scope.Get(background, []byte("empty"))); len(got) != 0 {
		t.Fatal(got)
	}
	expectStatus(t, scope.Put(background, nil, nil), ErrArgument)
	expectStatus(t, scope.Put(background, make([]byte, 65), nil), ErrArgument, "65")
	_, err = scope.PutAll(background, nil, nil)
	expectStatus(t, err, ErrArgument)
}

// Items have statuses of their own; a lease holds what was found.
func TestBatches(t *testing.T) {
	store := openStore(t, nil)
	scope := must[*Scope](t)(store.Scope(ScopeOptions{Model: "objects"}))
	check(t, scope.Put(background, []byte("b"), []byte("x")))
	items := []Object{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}}
	lease, result, err := scope.ExistsAll(background, items, &ObjectOptions{Flags: ObjectLease, Lease: time.Hour})
	check(t, err)
	if lease == nil || result.Done != 0 || items[0].Status != ErrNotFound || items[1].Status != OK || items[1].Tier != TierHost {
		t.Fatalf("%+v %+v", result, items)
	}
	check(t, lease.Close())
	lease, _, err = scope.ExistsAll(background, items[:1], &ObjectOptions{Flags: ObjectLease})
	check(t, err)
	if lease != nil {
		t.Fatal("a lease on nothing")
	}
	_, err = scope.DeleteAll(background, items)
	expectStatus(t, err, ErrNotFound)
	if items[1].Status != OK {
		t.Fatalf("%+v", items)
	}
}

// A value put with a layout comes back as the very bytes.
func TestTypedObjects(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	c := stamped(3, 0, 16)
	value := append(append([]uint16(nil), c.k...), c.v...)
	layout := c.rows()
	options := &ObjectOptions{Layout: &layout, VOffset: uint64(len(c.k)) * 2}
	must[Result](t)(scope.PutAll(background, []Object{{Key: []byte("typed"), Value: Of(value)}}, options))
	got := must[[]byte](t)(scope.Get(background, []byte("typed")))
	if halves := must[[]uint16](t)(As[uint16](got)); !slices.Equal(halves, value) {
		t.Fatal("other bytes came back")
	}
	options.VOffset++
	_, err := scope.PutAll(background, []Object{{Key: []byte("odd"), Value: Of(value)}}, options)
	expectStatus(t, err, ErrArgument)
}

// Scopes share nothing, and a cleared one is empty.
func TestScopes(t *testing.T) {
	store := openStore(t, nil)
	one, two := openScope(t, store, "one"), openScope(t, store, "two")
	check(t, one.Put(background, []byte("k"), []byte("v")))
	if must[bool](t)(two.Exists(background, []byte("k"))) {
		t.Fatal("a scope sees another's")
	}
	if info := must[ScopeInfo](t)(one.Info()); info.ObjectCount != 1 || info.Fingerprint == must[ScopeInfo](t)(two.Info()).Fingerprint {
		t.Fatalf("%+v", info)
	}
	if got := must[Result](t)(one.Clear(background)); got.Done != 1 {
		t.Fatalf("%+v", got)
	}
	check(t, one.Close())
	expectStatus(t, one.Close(), ErrStale)
}
