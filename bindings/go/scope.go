package kvc

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// Shape is the geometry of a model's cache.  Two hosts share rows only if every member is equal.
type Shape struct {
	DType       DType  // as rows are stored; no default
	ChunkTokens uint32 // tokens a chunk: a multiple of 16, at most 256; 0: 64
	Rope        Rope
	Layers      []Layer // the runs, from the first layer on
}

func (s *Shape) fill(pins *runtime.Pinner) *cShape {
	c := &cShape{dtype: s.DType, chunkTokens: s.ChunkTokens, rope: s.Rope, layers: pinned(pins, s.Layers), layerRuns: uint64(len(s.Layers))}
	c.size = uint32(unsafe.Sizeof(*c))
	pins.Pin(c)
	return c
}

// Check validates a shape and says what follows from it.
func (s *Shape) Check() (ShapeInfo, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	info := new(ShapeInfo)
	info.size = uint32(unsafe.Sizeof(*info))
	shape := s.fill(&pins)
	err := checked(func(e *cError) int32 {
		return raw.Kvc_shape_check(unsafe.Pointer(info), unsafe.Pointer(shape), unsafe.Pointer(e))
	})
	return *info, err
}

// ScopeOptions say whose cache it is.  Every name is part of every key, byte for byte.
type ScopeOptions struct {
	Tenant   string        // who may read it
	Model    string        // required: a name that all hosts of the model agree on
	Revision string        // weights and whatever else changes K and V
	Adapter  string        // LoRA or the like
	Salt     []byte        // keeps others from probing what is cached
	Shape    *Shape        // nil: objects only
	BytesMax uint64        // quota in bytes of RAM; 0: none
	TTL      time.Duration // unused for so long: dropped; 0: never
}

// Scope is whose cache, of which shape: the namespace of prefixes and objects.  Any goroutine, any time.
type Scope struct{ handle }

// Scope makes a scope, or joins it: the same names, salt and shape give an equal one.
func (s *Store) Scope(options ScopeOptions) (*Scope, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	c := &cScopeOptions{salt: pinned(&pins, options.Salt), saltSize: uint64(len(options.Salt)), bytesMax: options.BytesMax}
	c.size = uint32(unsafe.Sizeof(*c))
	var err error
	for _, name := range []struct {
		at         *unsafe.Pointer
		name, text string
	}{{&c.tenant, "Tenant", options.Tenant}, {&c.model, "Model", options.Model}, {&c.revision, "Revision", options.Revision}, {&c.adapter, "Adapter", options.Adapter}} {
		if *name.at, err = cString(&pins, name.name, name.text); err != nil {
			return nil, err
		}
	}
	if c.ttlMs, err = milliseconds("TTL", options.TTL); err != nil {
		return nil, err
	}
	if options.Shape != nil {
		c.shape = unsafe.Pointer(options.Shape.fill(&pins))
	}
	token := new(uintptr)
	err = s.call(func(e *cError) int32 {
		return raw.Kvc_scope_create(token, s.token, unsafe.Pointer(c), unsafe.Pointer(e))
	})
	if err != nil {
		return nil, err
	}
	scope := &Scope{}
	return hold(scope, &scope.handle, s.gate, s, scopeKind, *token, nil), nil
}

// Close ends the handle.  The scope's sequences live on, and what it stored stays.
func (s *Scope) Close() error {
	if s == nil {
		return nil
	}
	defer runtime.KeepAlive(s)
	return s.close()
}

// Info says what the scope holds and what became of it.
func (s *Scope) Info() (ScopeInfo, error) {
	defer runtime.KeepAlive(s)
	info := new(ScopeInfo)
	info.size = uint32(unsafe.Sizeof(*info))
	err := s.call(func(e *cError) int32 { return raw.Kvc_scope_get_info(unsafe.Pointer(info), s.token, unsafe.Pointer(e)) })
	return *info, err
}

func (s *Scope) clearing() (*lent, invoke) {
	return newLent(s.store), func(l *lent, _ *uintptr, result, call, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return raw.Kvc_scope_clear(result, s.token, call, err)
	}
}

// Clear drops all chunks and objects of the scope; Result.Done says how many went at once.
func (s *Scope) Clear(ctx context.Context) (Result, error) {
	l, call := s.clearing()
	err := s.store.run(ctx, l, call)
	return l.result, err
}

// Clear starts [Scope.Clear].
func (q *Queue) Clear(s *Scope) (*Call, error) {
	l, call := s.clearing()
	return q.begin(l, call, nil)
}

// SeqOptions say how a sequence is made.
type SeqOptions struct {
	Flags             SeqFlags
	Lease             time.Duration // 0: the store's; Forever: until release
	LayerBegin        uint32        // the part this handle writes and reads (PP, TP)
	LayerCount        uint32        // 0: all
	HeadBegin         uint32
	HeadCount         uint32  // 0: all
	PrefillNsPerToken uint64  // match: cost of recomputing here; 0: unknown
	TokensMax         uint64  // match: look no further; 0: all
	FirstPosition     uint64  // of token 0, if it is not 0
	Extras            []Extra // identity beside the token ids; rising
	WriteID           [16]byte
	Tier              Tier // match: start promoting the hit to this tier; 0: no
}

// Extra is identity beside the token ids: the digest of an image behind its placeholders, 1 to 64 bytes.
type Extra struct {
	TokenBegin, TokenCount uint64
	Data                   []byte
}

func fillExtras(pins *runtime.Pinner, extras []Extra) unsafe.Pointer {
	out := make([]cExtra, len(extras))
	for i, x := range extras {
		out[i] = cExtra{tokenBegin: x.TokenBegin, tokenCount: x.TokenCount, data: pinned(pins, x.Data), dataSize: uint64(len(x.Data))}
	}
	return pinned(pins, out)
}

func (o *SeqOptions) fill(pins *runtime.Pinner) (unsafe.Pointer, error) {
	if o == nil {
		return nil, nil
	}
	lease, err := milliseconds("Lease", o.Lease)
	if err != nil {
		return nil, err
	}
	c := &cSeqOptions{flags: uint32(o.Flags), leaseMs: lease, layerBegin: o.LayerBegin, layerCount: o.LayerCount, headBegin: o.HeadBegin, headCount: o.HeadCount,
		prefillNsPerToken: o.PrefillNsPerToken, tokensMax: o.TokensMax, firstPosition: o.FirstPosition, extras: fillExtras(pins, o.Extras), extraCount: uint64(len(o.Extras)),
		writeID: o.WriteID, tier: o.Tier}
	c.size = uint32(unsafe.Sizeof(*c))
	pins.Pin(c)
	return unsafe.Pointer(c), nil
}

// Create makes an empty sequence; nil options are the defaults.
func (s *Scope) Create(options *SeqOptions) (*Seq, error) {
	defer runtime.KeepAlive(s)
	var pins runtime.Pinner
	defer pins.Unpin()
	c, err := options.fill(&pins)
	if err != nil {
		return nil, err
	}
	token := new(uintptr)
	if err := s.call(func(e *cError) int32 { return raw.Kvc_seq_create(token, s.token, c, unsafe.Pointer(e)) }); err != nil {
		return nil, err
	}
	return newSeq(s.store, *token), nil
}

// making prepares a call that gives a sequence.
func (s *Scope) making(options *SeqOptions, fill func(l *lent) error, call func(l *lent, out *uintptr, options, call, err unsafe.Pointer) int32) (*lent, invoke, error) {
	if s == nil || s.store == nil {
		return nil, nil, errNone
	}
	l := newLent(s.store)
	c, err := options.fill(&l.pins)
	if err == nil {
		err = fill(l)
	}
	if err != nil {
		return nil, nil, l.refuse(err)
	}
	return l, func(l *lent, out *uintptr, _, queued, err unsafe.Pointer) int32 {
		defer runtime.KeepAlive(s)
		return call(l, out, c, queued, err)
	}, nil
}

func (s *Scope) matching(tokens []int32, options *SeqOptions) (*lent, invoke, error) {
	peek := options != nil && options.Flags&SeqPeek != 0
	pin := func(l *lent) error { pinned(&l.pins, tokens); return nil }
	return s.making(options, pin, func(l *lent, out *uintptr, options, call, err unsafe.Pointer) int32 {
		if peek {
			out = nil
		}
		return raw.Kvc_match(out, unsafe.Pointer(&l.match), s.token, first(tokens), uint64(len(tokens)), options, call, err)
	})
}

// seq waits for a call that gives a sequence; nil with [SeqPeek].
func (s *Scope) seq(ctx context.Context, l *lent, call invoke, err error) (*Seq, error) {
	if _, err = perform(ctx, l, call, err); err != nil {
		return nil, err
	}
	if token := max(l.out, l.result.seq); token != 0 {
		return newSeq(s.store, token), nil
	}
	return nil, nil
}

// Match makes a sequence of the longest stored prefix of tokens, which holds its lease already; nothing found is a sequence of length 0.
// With [SeqPeek] there is no sequence.
func (s *Scope) Match(ctx context.Context, tokens []int32, options *SeqOptions) (*Seq, MatchInfo, error) {
	l, call, err := s.matching(tokens, options)
	seq, err := s.seq(ctx, l, call, err)
	if l == nil {
		return nil, MatchInfo{}, err
	}
	return seq, l.match, err
}

// Match starts [Scope.Match]: [Call.Seq] and [Call.Match] are what it gives.
func (q *Queue) Match(s *Scope, tokens []int32, options *SeqOptions) (*Call, error) {
	l, call, err := s.matching(tokens, options)
	return q.startGiving(l, call, err)
}

func (s *Scope) attaching(name string, options *SeqOptions) (*lent, invoke, error) {
	return s.making(options, func(*lent) error { return nil }, func(_ *lent, out *uintptr, options, call, err unsafe.Pointer) int32 {
		return raw.Kvc_seq_attach(out, s.token, unsafe.Pointer(unsafe.StringData(name)), uint64(len(name)), options, call, err)
	})
}

// Attach makes a fork of a sequence that was published under a name of 1 to 64 bytes.
func (s *Scope) Attach(ctx context.Context, name string, options *SeqOptions) (*Seq, error) {
	l, call, err := s.attaching(name, options)
	return s.seq(ctx, l, call, err)
}

// Attach starts [Scope.Attach]; [Call.Seq] is what it gives.
func (q *Queue) Attach(s *Scope, name string, options *SeqOptions) (*Call, error) {
	l, call, err := s.attaching(name, options)
	return q.startGiving(l, call, err)
}

// Withdraw frees what a name holds at once.
func (s *Scope) Withdraw(name string) error {
	defer runtime.KeepAlive(s)
	return s.call(func(e *cError) int32 {
		return raw.Kvc_seq_withdraw(s.token, unsafe.Pointer(unsafe.StringData(name)), uint64(len(name)), unsafe.Pointer(e))
	})
}

func (s *Scope) restoring(path string, options *SeqOptions) (*lent, invoke, error) {
	var name unsafe.Pointer
	fill := func(l *lent) (err error) { name, err = cString(&l.pins, "path", path); return err }
	return s.making(options, fill, func(_ *lent, out *uintptr, options, call, err unsafe.Pointer) int32 {
		return raw.Kvc_seq_restore(out, s.token, name, options, call, err)
	})
}

// Restore makes a sequence from a saved file, as it was.
func (s *Scope) Restore(ctx context.Context, path string, options *SeqOptions) (*Seq, error) {
	l, call, err := s.restoring(path, options)
	return s.seq(ctx, l, call, err)
}

// Restore starts [Scope.Restore]; [Call.Seq] is what it gives.
func (q *Queue) Restore(s *Scope, path string, options *SeqOptions) (*Call, error) {
	l, call, err := s.restoring(path, options)
	return q.startGiving(l, call, err)
}

// startGiving starts a call that gives a sequence or a lease.
func (q *Queue) startGiving(l *lent, call invoke, err error) (*Call, error) {
	if err != nil {
		return nil, err
	}
	l.after = func() {
		if l.result.seq != 0 {
			l.seq = newSeq(l.store, l.result.seq)
		}
		if l.result.lease != 0 {
			l.lease = newLease(l.store, l.result.lease)
		}
	}
	return q.begin(l, call, nil)
}
