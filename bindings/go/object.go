package kvc

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// Object is one item of a batch: a key of 1 to 64 bytes and its value, whole or in parts.
type Object struct {
	Key   []byte
	Value Memory   // what is put, or where it is got to
	Parts []Memory // in place of Value: the value's pieces, in order

	ValueSize uint64 // out: bytes stored (get, exists)
	Status    Status // out: of this item
	Tier      Tier   // out: of the nearest copy; 0: none
}

// ObjectOptions say how to run a batch.
type ObjectOptions struct {
	Flags  ObjectFlags
	TTL    time.Duration // put: unused for so long, dropped; 0: the scope's; Forever: never
	Lease  time.Duration // exists with ObjectLease; 0: the store's
	Layout *Rows         // put: values are rows that lie so; the memory of K and V is not looked at, KOffset and VOffset are where they begin in a value

	KOffset, VOffset uint64
}

func (o *ObjectOptions) fill(pins *runtime.Pinner) (unsafe.Pointer, error) {
	if o == nil {
		return nil, nil
	}
	c := &cObjectOptions{flags: uint32(o.Flags)}
	c.size = uint32(unsafe.Sizeof(*c))
	var err error
	if c.ttlMs, err = milliseconds("TTL", o.TTL); err != nil {
		return nil, err
	}
	if c.leaseMs, err = milliseconds("Lease", o.Lease); err != nil {
		return nil, err
	}
	if o.Layout != nil {
		rows := new(cRows)
		layout := *o.Layout
		layout.K.Memory, layout.V.Memory = Memory{}, Memory{}
		layout.fill(rows, pins)
		if max(o.KOffset, o.VOffset) > offsetMax {
			return nil, refused(ErrArgument, fmt.Sprintf("KOffset %d, VOffset %d: no value is so long", o.KOffset, o.VOffset))
		}
		setOffset(&rows.k, o.KOffset)
		setOffset(&rows.v, o.VOffset)
		pins.Pin(rows)
		c.layout = unsafe.Pointer(rows)
	}
	pins.Pin(c)
	return unsafe.Pointer(c), nil
}

// offsetMax is far below any address of Go's, so that its collector takes no offset for one.
const offsetMax = 1 << 36

// setOffset puts a number where C has a pointer: k.data of a layout, which is never followed.
func setOffset(c *cArray, bytes uint64) { *(*uintptr)(unsafe.Pointer(&c.data)) = uintptr(bytes) }

// batch prepares a call over objects; what it writes comes back to them at its end.
func (s *Scope) batch(objects []Object, options *ObjectOptions, call func(result, scope unsafe.Pointer, count uint64, options, call, err unsafe.Pointer) int32) (*lent, invoke, error) {
	if s == nil || s.store == nil {
		return nil, nil, errNone
	}
	l := newLent(s.store)
	l.refused = func(status Status) {
		for i := range objects {
			objects[i].ValueSize, objects[i].Status, objects[i].Tier = 0, status, 0
		}
	}
	o, err := options.fill(&l.pins)
	if err != nil {
		return nil, nil, l.refuse(err)
	}
	list := make([]cObject, len(objects))
	for i := range objects {
		objects[i].fill(&list[i], &l.pins)
	}
	items := pinned(&l.pins, list)
	l.after = func() {
		for i := range list {
			objects[i].ValueSize, objects[i].Status, objects[i].Tier = list[i].valueSize, list[i].status, list[i].tier
		}
		if l.result.lease != 0 {
			l.lease = newLease(s.store, l.result.lease)
		}
	}
	return l, func(_ *lent, _ *uintptr, result, queued, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return call(result, items, uint64(len(list)), o, queued, err)
	}, nil
}

func (o *Object) fill(c *cObject, pins *runtime.Pinner) {
	parts := o.Parts
	if parts == nil {
		parts = []Memory{o.Value}
	}
	list := make([]cBytes, len(parts))
	for i, part := range parts {
		pin(pins, part.data)
		list[i] = cBytes{part.data, part.bytes}
	}
	*c = cObject{key: pinned(pins, o.Key), keySize: uint64(len(o.Key)), parts: pinned(pins, list), partCount: uint64(len(list))}
}

func (s *Scope) putting(objects []Object, options *ObjectOptions) (*lent, invoke, error) {
	return s.batch(objects, options, func(result, items unsafe.Pointer, count uint64, options, call, err unsafe.Pointer) int32 {
		return raw.Kvc_object_put(result, s.token, items, count, options, call, err)
	})
}

func (s *Scope) getting(objects []Object, options *ObjectOptions) (*lent, invoke, error) {
	return s.batch(objects, options, func(result, items unsafe.Pointer, count uint64, options, call, err unsafe.Pointer) int32 {
		return raw.Kvc_object_get(result, s.token, items, count, options, call, err)
	})
}

func (s *Scope) looking(objects []Object, options *ObjectOptions) (*lent, invoke, error) {
	return s.batch(objects, options, func(result, items unsafe.Pointer, count uint64, options, call, err unsafe.Pointer) int32 {
		return raw.Kvc_object_exists(result, s.token, items, count, options, call, err)
	})
}

func (s *Scope) deleting(objects []Object) (*lent, invoke, error) {
	return s.batch(objects, nil, func(result, items unsafe.Pointer, count uint64, _, call, err unsafe.Pointer) int32 {
		return raw.Kvc_object_delete(result, s.token, items, count, call, err)
	})
}

// PutAll stores values.  Write-once: equal bytes again are fine, others are ErrExists.  The error is that of the first item that is not OK.
func (s *Scope) PutAll(ctx context.Context, objects []Object, options *ObjectOptions) (Result, error) {
	l, call, err := s.putting(objects, options)
	return perform(ctx, l, call, err)
}

// GetAll reads values into the memory of the items, which may be longer than the values.
func (s *Scope) GetAll(ctx context.Context, objects []Object, options *ObjectOptions) (Result, error) {
	l, call, err := s.getting(objects, options)
	return perform(ctx, l, call, err)
}

// ExistsAll says which keys hold a value, in the items' Status.  With [ObjectLease] the lease holds what was found, nil: nothing.
func (s *Scope) ExistsAll(ctx context.Context, objects []Object, options *ObjectOptions) (*Lease, Result, error) {
	l, call, err := s.looking(objects, options)
	result, err := perform(ctx, l, call, err)
	if l == nil {
		return nil, result, err
	}
	return l.lease, result, err
}

// DeleteAll deletes values.
func (s *Scope) DeleteAll(ctx context.Context, objects []Object) (Result, error) {
	l, call, err := s.deleting(objects)
	return perform(ctx, l, call, err)
}

// PutAll starts [Scope.PutAll]; the items are lent too.
func (q *Queue) PutAll(s *Scope, objects []Object, options *ObjectOptions) (*Call, error) {
	l, call, err := s.putting(objects, options)
	return q.begin(l, call, err)
}

// GetAll starts [Scope.GetAll]; the items are lent too.
func (q *Queue) GetAll(s *Scope, objects []Object, options *ObjectOptions) (*Call, error) {
	l, call, err := s.getting(objects, options)
	return q.begin(l, call, err)
}

// ExistsAll starts [Scope.ExistsAll]; [Call.Lease] is the lease.
func (q *Queue) ExistsAll(s *Scope, objects []Object, options *ObjectOptions) (*Call, error) {
	l, call, err := s.looking(objects, options)
	return q.begin(l, call, err)
}

// DeleteAll starts [Scope.DeleteAll].
func (q *Queue) DeleteAll(s *Scope, objects []Object) (*Call, error) {
	l, call, err := s.deleting(objects)
	return q.begin(l, call, err)
}

// Put stores one value.
func (s *Scope) Put(ctx context.Context, key, value []byte) error {
	if ctx.Done() != nil {
		_, err := s.PutAll(ctx, []Object{{Key: key, Value: Of(value)}}, nil)
		return err
	}
	defer runtime.KeepAlive(s)
	return s.call(func(e *cError) int32 {
		return raw.Kvc_object_put_one(s.token, unsafe.Pointer(unsafe.SliceData(key)), uint64(len(key)), unsafe.Pointer(unsafe.SliceData(value)), uint64(len(value)), unsafe.Pointer(e))
	})
}

// GetInto reads one value to the front of data and returns its size, also with ErrRange: data is shorter than that.
func (s *Scope) GetInto(ctx context.Context, key, data []byte) (int, error) {
	if ctx.Done() != nil {
		item := []Object{{Key: key, Value: Of(data)}}
		_, err := s.GetAll(ctx, item, nil)
		return int(item[0].ValueSize), err
	}
	defer runtime.KeepAlive(s)
	if err := s.store.gate.enter(); err != nil {
		return 0, err
	}
	defer s.store.gate.leave()
	one := onePool.Get().(*oneGet)
	defer onePool.Put(one)
	one.err.size = uint32(unsafe.Sizeof(one.err))
	if Status(raw.Kvc_object_get_one(&one.size, s.token, unsafe.Pointer(unsafe.SliceData(key)), uint64(len(key)), unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)),
		unsafe.Pointer(&one.err))) != OK {
		return int(one.size), newError(&one.err)
	}
	return int(one.size), nil
}

// Get reads one value.
func (s *Scope) Get(ctx context.Context, key []byte) ([]byte, error) {
	item := []Object{{Key: key}}
	if _, _, err := s.ExistsAll(ctx, item, nil); err != nil {
		return nil, err
	}
	for size := int(item[0].ValueSize); ; { // another value may have come under the key
		data := make([]byte, size)
		got, err := s.GetInto(ctx, key, data)
		if err == nil {
			return data[:got], nil
		}
		if got <= size {
			return nil, err
		}
		size = got
	}
}

// Exists says whether the key holds a value.
func (s *Scope) Exists(ctx context.Context, key []byte) (bool, error) {
	item := []Object{{Key: key}}
	_, _, err := s.ExistsAll(ctx, item, nil)
	if err == nil && item[0].Status != OK && item[0].Status != ErrNotFound {
		err = refused(item[0].Status, fmt.Sprintf("key of %d bytes: %v", len(key), item[0].Status))
	}
	return err == nil && item[0].Status == OK, err
}

// Delete deletes one value.
func (s *Scope) Delete(ctx context.Context, key []byte) error {
	_, err := s.DeleteAll(ctx, []Object{{Key: key}})
	return err
}

// Key is the entry's key.
func (e *ObjectEntry) Key() []byte { return e.key[:e.keySize] }

// List gives the next entries in key order after a key, at most count of them; fewer: there are no more.
func (s *Scope) List(ctx context.Context, after []byte, count int) ([]ObjectEntry, error) {
	const most = 1 << 20
	if count < 1 || count > most {
		return nil, refused(ErrArgument, fmt.Sprintf("count %d: 1 to %d entries at once", count, most))
	}
	if s == nil || s.store == nil {
		return nil, errNone
	}
	entries := make([]ObjectEntry, count)
	found := new(uint64)
	l := newLent(s.store)
	l.pins.Pin(found)
	list := pinned(&l.pins, entries)
	err := s.store.run(ctx, l, func(_ *lent, _ *uintptr, _, call, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return raw.Kvc_object_list(list, uint64(len(entries)), found, s.token, unsafe.Pointer(first(after)), uint64(len(after)), call, err)
	})
	return entries[:*found], err
}

// All ranges over the scope's entries in key order; an error ends it.
func (s *Scope) All(ctx context.Context) iter.Seq2[ObjectEntry, error] {
	return func(yield func(ObjectEntry, error) bool) {
		const page = 256
		var after []byte
		for {
			entries, err := s.List(ctx, after, page)
			if err != nil {
				yield(ObjectEntry{}, err)
				return
			}
			for i := range entries {
				if !yield(entries[i], nil) {
					return
				}
			}
			if len(entries) < page {
				return
			}
			after = entries[page-1].Key()
		}
	}
}
