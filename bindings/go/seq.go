package kvc

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// Seq is an ordered run of tokens with their rows.  Gather, Fork, Lease, View, Save, Prefetch and Info may run beside each other; the others must be
// alone on it.  Forks are independent: give each goroutine its own.
type Seq struct{ handle }

func newSeq(store *Store, token uintptr) *Seq {
	s := &Seq{}
	return hold(s, &s.handle, store.gate, store, seqKind, token, nil)
}

// Close ends the handle.  Queued calls on it run on; sealed chunks stay for others until they are evicted.
func (s *Seq) Close() error {
	if s == nil {
		return nil
	}
	defer runtime.KeepAlive(s)
	return s.close()
}

// waiting prepares a call that gives nothing but its result.
func (s *Seq) waiting(fill func(l *lent) error, call func(result, call, err unsafe.Pointer) int32) (*lent, invoke, error) {
	if s == nil || s.store == nil {
		return nil, nil, errNone
	}
	l := newLent(s.store)
	if err := fill(l); err != nil {
		return nil, nil, l.refuse(err)
	}
	return l, func(_ *lent, _ *uintptr, result, queued, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return call(result, queued, err)
	}, nil
}

func (s *Seq) appending(tokens []int32, rows []Rows) (*lent, invoke, error) {
	var list []cRows
	fill := func(l *lent) error {
		pinned(&l.pins, tokens)
		list = fillRows(rows, &l.pins)
		return nil
	}
	return s.waiting(fill, func(_, call, err unsafe.Pointer) int32 {
		return raw.Kvc_append(s.token, first(tokens), uint64(len(tokens)), unsafe.Pointer(first(list)), uint64(len(list)), call, err)
	})
}

// Append appends rows, ids, or both: all or nothing.  tokens are the next ids after those given already; rows are never ahead of ids.
func (s *Seq) Append(ctx context.Context, tokens []int32, rows ...Rows) error {
	l, call, err := s.appending(tokens, rows)
	_, err = perform(ctx, l, call, err)
	return err
}

// Append starts [Seq.Append].
func (q *Queue) Append(s *Seq, tokens []int32, rows ...Rows) (*Call, error) {
	l, call, err := s.appending(tokens, rows)
	return q.begin(l, call, err)
}

func (s *Seq) gathering(rows []Rows) (*lent, invoke, error) {
	var list []cRows
	fill := func(l *lent) error { list = fillRows(rows, &l.pins); return nil }
	return s.waiting(fill, func(result, call, err unsafe.Pointer) int32 {
		return raw.Kvc_gather(result, s.token, unsafe.Pointer(first(list)), uint64(len(list)), call, err)
	})
}

// Gather copies rows into the caller's memory, converted to each array's dtype and layout.  When it fails the rows below position Result.Done are
// right in every run.
func (s *Seq) Gather(ctx context.Context, rows ...Rows) (Result, error) {
	l, call, err := s.gathering(rows)
	return perform(ctx, l, call, err)
}

// Gather starts [Seq.Gather].
func (q *Queue) Gather(s *Seq, rows ...Rows) (*Call, error) {
	l, call, err := s.gathering(rows)
	return q.begin(l, call, err)
}

func (s *Seq) prefetching(tier Tier, rows []Rows) (*lent, invoke, error) {
	var list []cRows
	fill := func(l *lent) error { list = fillRows(rows, &l.pins); return nil }
	return s.waiting(fill, func(result, call, err unsafe.Pointer) int32 {
		return raw.Kvc_seq_prefetch(result, s.token, unsafe.Pointer(first(list)), uint64(len(list)), uint32(tier), call, err)
	})
}

// Prefetch brings rows to a tier; Result.Done is what got there.  Their K and V are ignored.
func (s *Seq) Prefetch(ctx context.Context, tier Tier, rows ...Rows) (Result, error) {
	l, call, err := s.prefetching(tier, rows)
	return perform(ctx, l, call, err)
}

// Prefetch starts [Seq.Prefetch].
func (q *Queue) Prefetch(s *Seq, tier Tier, rows ...Rows) (*Call, error) {
	l, call, err := s.prefetching(tier, rows)
	return q.begin(l, call, err)
}

// Identify adds identity to tokens whose chunk is not sealed.
func (s *Seq) Identify(extras ...Extra) error {
	defer runtime.KeepAlive(s)
	var pins runtime.Pinner
	defer pins.Unpin()
	list := fillExtras(&pins, extras)
	return s.call(func(e *cError) int32 {
		return raw.Kvc_seq_identify(s.token, list, uint64(len(extras)), unsafe.Pointer(e))
	})
}

// Fork makes a sequence of the first tokens of this one; All: of all.  Copy on write.
func (s *Seq) Fork(tokens uint64) (*Seq, error) {
	defer runtime.KeepAlive(s)
	token := new(uintptr)
	if err := s.call(func(e *cError) int32 { return raw.Kvc_seq_fork(token, s.token, tokens, unsafe.Pointer(e)) }); err != nil {
		return nil, err
	}
	return newSeq(s.store, *token), nil
}

// Truncate goes back to a length, in all layers or not at all.
func (s *Seq) Truncate(tokens uint64) error {
	defer runtime.KeepAlive(s)
	return s.call(func(e *cError) int32 { return raw.Kvc_seq_truncate(s.token, tokens, unsafe.Pointer(e)) })
}

// Compact keeps only the listed positions, renumbered from 0.  The sequence becomes private.
func (s *Seq) Compact(positions []uint64) error {
	defer runtime.KeepAlive(s)
	return s.call(func(e *cError) int32 {
		return raw.Kvc_seq_compact(s.token, first(positions), uint64(len(positions)), unsafe.Pointer(e))
	})
}

// Reorder is beam search: seqs[i] becomes what seqs[source[i]] was; all or nothing.
func Reorder(seqs []*Seq, source []uint32) error {
	if len(seqs) != len(source) || len(seqs) == 0 {
		return refused(ErrArgument, fmt.Sprintf("Reorder: %d sequences, %d sources: as many are needed, not none", len(seqs), len(source)))
	}
	defer runtime.KeepAlive(seqs)
	tokens := make([]uintptr, len(seqs))
	for i, s := range seqs {
		if s == nil || s.store == nil {
			return errNone
		}
		if s.store != seqs[0].store {
			return refused(ErrMisuse, fmt.Sprintf("Reorder: sequence %d is of another store than sequence 0", i))
		}
		tokens[i] = s.token
	}
	return seqs[0].call(func(e *cError) int32 {
		return raw.Kvc_seq_reorder(first(tokens), first(source), uint64(len(source)), unsafe.Pointer(e))
	})
}

// Hint tells the store what the host knows of reuse.
func (s *Seq) Hint(hint Hint) error {
	defer runtime.KeepAlive(s)
	hint.size = uint32(unsafe.Sizeof(hint))
	return s.call(func(e *cError) int32 { return raw.Kvc_seq_hint(s.token, unsafe.Pointer(&hint), unsafe.Pointer(e)) })
}

// Info says what the sequence is and where it lies.
func (s *Seq) Info() (SeqInfo, error) {
	defer runtime.KeepAlive(s)
	info := new(SeqInfo)
	info.size = uint32(unsafe.Sizeof(*info))
	err := s.call(func(e *cError) int32 { return raw.Kvc_seq_get_info(unsafe.Pointer(info), s.token, unsafe.Pointer(e)) })
	return *info, err
}

func (s *Seq) publishing(name string, lease time.Duration) (*lent, invoke, error) {
	var ms uint64
	fill := func(*lent) (err error) { ms, err = milliseconds("lease", lease); return err }
	return s.waiting(fill, func(_, call, err unsafe.Pointer) int32 {
		return raw.Kvc_seq_publish(s.token, unsafe.Pointer(unsafe.StringData(name)), uint64(len(name)), ms, call, err)
	})
}

// Publish hands the sequence to whoever knows scope and name, as it is now, for the lease; 0: the store's.
func (s *Seq) Publish(ctx context.Context, name string, lease time.Duration) error {
	l, call, err := s.publishing(name, lease)
	_, err = perform(ctx, l, call, err)
	return err
}

// Publish starts [Seq.Publish].
func (q *Queue) Publish(s *Seq, name string, lease time.Duration) (*Call, error) {
	l, call, err := s.publishing(name, lease)
	return q.begin(l, call, err)
}

func (s *Seq) saving(path string) (*lent, invoke, error) {
	var name unsafe.Pointer
	fill := func(l *lent) (err error) { name, err = cString(&l.pins, "path", path); return err }
	return s.waiting(fill, func(_, call, err unsafe.Pointer) int32 { return raw.Kvc_seq_save(s.token, name, call, err) })
}

// Save writes the sequence to one file, which [Scope.Restore] of any language reads.
func (s *Seq) Save(ctx context.Context, path string) error {
	l, call, err := s.saving(path)
	_, err = perform(ctx, l, call, err)
	return err
}

// Save starts [Seq.Save].
func (q *Queue) Save(s *Seq, path string) (*Call, error) {
	l, call, err := s.saving(path)
	return q.begin(l, call, err)
}

// Lease holds tokens or objects longer than their sequence.  Any goroutine, any time.
type Lease struct{ handle }

func newLease(store *Store, token uintptr) *Lease {
	l := &Lease{}
	return hold(l, &l.handle, store.gate, store, leaseKind, token, nil)
}

func (s *Seq) leasing(begin, count uint64, lease time.Duration) (*lent, invoke, error) {
	ms, err := milliseconds("lease", lease)
	if err != nil {
		return nil, nil, err
	}
	if s == nil || s.store == nil {
		return nil, nil, errNone
	}
	return newLent(s.store), func(_ *lent, out *uintptr, _, call, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return raw.Kvc_seq_lease(out, s.token, begin, count, ms, call, err)
	}, nil
}

// Lease holds the tokens [begin, begin + count), All: to the end, for a time; 0: the store's.
func (s *Seq) Lease(ctx context.Context, begin, count uint64, lease time.Duration) (*Lease, error) {
	l, call, err := s.leasing(begin, count, lease)
	if _, err = perform(ctx, l, call, err); err != nil {
		return nil, err
	}
	return newLease(s.store, max(l.out, l.result.lease)), nil
}

// Lease starts [Seq.Lease]; [Call.Lease] is what it gives.
func (q *Queue) Lease(s *Seq, begin, count uint64, lease time.Duration) (*Call, error) {
	l, call, err := s.leasing(begin, count, lease)
	return q.startGiving(l, call, err)
}

// Renew sets when the lease ends, from now; 0: the store's time.
func (l *Lease) Renew(lease time.Duration) error {
	defer runtime.KeepAlive(l)
	ms, err := milliseconds("lease", lease)
	if err != nil {
		return err
	}
	return l.call(func(e *cError) int32 { return raw.Kvc_lease_renew(l.token, ms, unsafe.Pointer(e)) })
}

// Close ends the lease; what it held may be evicted.
func (l *Lease) Close() error {
	if l == nil {
		return nil
	}
	defer runtime.KeepAlive(l)
	return l.close()
}
