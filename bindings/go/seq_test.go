package kvc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A prefix that was appended is found by its ids up to the last whole chunk, with the very rows; other ids find nothing.
func TestMatchFindsWholeChunks(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	first := written(t, scope, 1, 1, 70)
	check(t, first.Close())
	seq, info, err := scope.Match(background, prompt(1, 70), nil)
	check(t, err)
	if info.Tokens != 64 || info.Stop != StopEnd || info.Stop.String() != "End" {
		t.Fatalf("%+v", info)
	}
	expectRows(t, seq, 1, 0, 64)
	_, info, err = scope.Match(background, prompt(1, 70), &SeqOptions{TokensMax: 63})
	check(t, err)
	if info.Tokens != 48 {
		t.Fatalf("%+v", info)
	}
	seq, info, err = scope.Match(background, prompt(2, 70), nil)
	check(t, err)
	if info.Tokens != 0 || seq == nil {
		t.Fatalf("%+v", info)
	}
	seq, info, err = scope.Match(background, prompt(1, 70), &SeqOptions{Flags: SeqPeek})
	check(t, err)
	if seq != nil || info.Tokens != 64 {
		t.Fatalf("a peek gives no sequence: %v %+v", seq, info)
	}
}

// Random appends, forks, truncations and reorders are what a slice of (id, writer) a sequence says they are.
func TestSequencesAgainstAModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

type modelled struct {
	seq     *Seq
	writers []int // who wrote the row of each position
}

func randomHistory(t *testing.T, random *rand.Rand) {
	scope := openScope(t, openStore(t, nil), "m")
	seqs := []*modelled{{seq: must[*Seq](t)(scope.Create(&SeqOptions{Flags: SeqPrivate}))}}
	for step := 1; step <= 60; step++ {
		m := seqs[random.IntN(len(seqs))]
		length := uint64(len(m.writers))
		switch random.IntN(5) {
		case 0, 1:
			count := 1 + random.Uint64N(40)
			check(t, m.seq.Append(background, nil, stamped(step, length, count).rows()))
			for range count {
				m.writers = append(m.writers, step)
			}
		case 2:
			at := random.Uint64N(length + 1)
			fork := must[*Seq](t)(m.seq.Fork(at))
			seqs = append(seqs, &modelled{fork, append([]int(nil), m.writers[:at]...)})
		case 3:
			at := random.Uint64N(length + 1)
			check(t, m.seq.Truncate(at))
			m.writers = m.writers[:at:at]
		case 4:
			source, handles, writers := []uint32{}, []*Seq{}, [][]int{}
			for _, s := range seqs {
				handles = append(handles, s.seq)
				from := random.IntN(len(seqs))
				source = append(source, uint32(from))
				writers = append(writers, append([]int(nil), seqs[from].writers...))
			}
			check(t, Reorder(handles, source))
			for i := range seqs {
				seqs[i].writers = writers[i]
			}
		}
		for i, s := range seqs {
			if len(s.writers) == 0 {
				continue
			}
			c := emptyCache(0, uint64(len(s.writers)))
			must[Result](t)(s.seq.Gather(background, c.rows()))
			if wrong := c.difference(func(token uint64) int { return s.writers[token] }); wrong != "" {
				t.Fatalf("step %d, sequence %d: %s", step, i, wrong)
			}
		}
	}
}

// A compact keeps what is listed, renumbered.
func TestCompact(t *testing.T) {
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 40)
	keep := []uint64{0, 1, 17, 39}
	check(t, seq.Compact(keep))
	got := emptyCache(0, 4)
	must[Result](t)(seq.Gather(background, got.rows()))
	got.each(func(side, layer, head, dim int, token uint64, at *uint16) {
		if want := stamp(1, side, layer, head, dim, keep[token]); *at != want {
			t.Fatalf("token %d: %#x, not %#x", token, *at, want)
		}
	})
	expectStatus(t, seq.Compact([]uint64{3, 2}), ErrRange)
}

// Extras are identity: the same ids behind another image are another prompt.
func TestExtras(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	image := func(digest string) *SeqOptions {
		return &SeqOptions{Extras: []Extra{{TokenBegin: 4, TokenCount: 8, Data: []byte(digest)}}}
	}
	seq := must[*Seq](t)(scope.Create(image("cat")))
	check(t, seq.Append(background, prompt(1, 32), stamped(1, 0, 32).rows()))
	for digest, want := range map[string]uint64{"cat": 32, "dog": 0} {
		_, info, err := scope.Match(background, prompt(1, 32), image(digest))
		check(t, err)
		if info.Tokens != want {
			t.Errorf("%s: %d tokens", digest, info.Tokens)
		}
	}
	late := must[*Seq](t)(scope.Create(nil))
	check(t, late.Identify(Extra{TokenBegin: 0, TokenCount: 1, Data: []byte("x")}))
	expectStatus(t, late.Identify(Extra{TokenBegin: 0, TokenCount: 1, Data: []byte("y")}), ErrRange)
}

// What one hands over under a name another attaches, until it is withdrawn.
func TestHandover(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	seq := written(t, scope, 1, 1, 21)
	check(t, seq.Publish(background, "job", time.Minute))
	check(t, seq.Close())
	expectRows(t, must[*Seq](t)(scope.Attach(background, "job", nil)), 1, 0, 21)
	check(t, scope.Withdraw("job"))
	_, err := scope.Attach(background, "job", nil)
	expectStatus(t, err, ErrNotFound)
	expectStatus(t, scope.Withdraw(""), ErrArgument)
}

// A lease pins what a sequence had; it is renewed and ended.
func TestLeases(t *testing.T) {
	store := openStore(t, nil)
	seq := written(t, openScope(t, store, "m"), 1, 1, 32)
	lease := must[*Lease](t)(seq.Lease(background, 0, All, time.Hour))
	check(t, seq.Close())
	if info := must[StoreInfo](t)(store.Info()); info.LeaseCount != 1 || info.MemoryPinned == 0 {
		t.Fatalf("%+v", info)
	}
	check(t, lease.Renew(Forever))
	expectStatus(t, lease.Renew(-1), ErrArgument)
	check(t, lease.Close())
	expectStatus(t, lease.Close(), ErrStale)
	_, err := written(t, openScope(t, store, "n"), 1, 1, 32).Lease(background, 0, 33, 0)
	expectStatus(t, err, ErrRange)
}

// A saved sequence comes back whole, in another store; a damaged file is refused and named.
func TestSaveAndRestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sequence")
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 37)
	check(t, seq.Save(background, path))
	scope := openScope(t, openStore(t, nil), "m")
	expectRows(t, must[*Seq](t)(scope.Restore(background, path, nil)), 1, 0, 37)
	data := must[[]byte](t)(os.ReadFile(path))
	data[len(data)-3] ^= 1
	check(t, os.WriteFile(path, data, 0o600))
	_, err := openScope(t, openStore(t, nil), "m").Restore(background, path, nil)
	expectStatus(t, err, ErrCorrupt)
	_, err = scope.Restore(background, path+"\x00", nil)
	expectStatus(t, err, ErrArgument, "path")
}

// Hints, prefetches and infos say what they are to say.
func TestHintPrefetchInfo(t *testing.T) {
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 40)
	check(t, seq.Hint(Hint{Flags: HintDone, Priority: 2}))
	got := must[Result](t)(seq.Prefetch(background, TierHost, Rows{LayerCount: layers, TokenCount: All}))
	if got.Done != 40 {
		t.Fatalf("%+v", got)
	}
	info := must[SeqInfo](t)(seq.Info())
	if info.Tokens != 40 || info.TokensSealed != 32 || info.TokensGiven != 40 || info.BytesHost == 0 || info.LeaseLeftMs == 0 {
		t.Fatalf("%+v", info)
	}
}

// Bad calls change nothing and name what is wrong.
func TestBadCallsChangeNothing(t *testing.T) {
	scope := openScope(t, openStore(t, nil), "m")
	seq := written(t, scope, 1, 1, 20)
	expectStatus(t, seq.Append(background, prompt(1, 4), stamped(2, 19, 4).rows()), ErrRange)
	short := stamped(2, 20, 4).rows()
	short.K.Memory = Of(make([]byte, 10))
	expectStatus(t, seq.Append(background, prompt(1, 4), short), ErrArgument, "10")
	expectStatus(t, seq.Truncate(21), ErrRange, "21")
	_, err := seq.Fork(22)
	expectStatus(t, err, ErrRange, "22")
	expectStatus(t, Reorder([]*Seq{seq}, nil), ErrArgument)
	expectStatus(t, Reorder(nil, nil), ErrArgument)
	other := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 4)
	expectStatus(t, Reorder([]*Seq{seq, other}, []uint32{1, 0}), ErrMisuse)
	if must[SeqInfo](t)(seq.Info()).Tokens != 20 {
		t.Fatal("something changed")
	}
	expectRows(t, seq, 1, 0, 20)
}
