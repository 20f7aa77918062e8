package kvc

import (
	"runtime"
	"unsafe"

	"kvc/internal/raw"
)

// Metrics reads the counters since the store was opened.
func (s *Store) Metrics() (Metrics, error) {
	m := new(Metrics)
	m.size = uint32(unsafe.Sizeof(*m))
	err := s.call(func(e *cError) int32 { return raw.Kvc_metrics_read(unsafe.Pointer(m), s.token, unsafe.Pointer(e)) })
	return *m, err
}

// MetricsText is every counter and gauge as Prometheus text.
func (s *Store) MetricsText() (string, error) {
	size := new(uint64)
	for room := uint64(16384); ; room = *size + *size/8 {
		out := make([]byte, room)
		err := s.call(func(e *cError) int32 {
			return raw.Kvc_metrics_text(unsafe.Pointer(first(out)), room, size, s.token, unsafe.Pointer(e))
		})
		if err == nil {
			return text(out), nil
		}
		if err.(*Error).Status != ErrRange {
			return "", err
		}
	}
}

// Trace writes spans of calls to a file that Perfetto reads; "" ends it.
func (s *Store) Trace(path string) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	name, err := cString(&pins, "path", path)
	if err != nil {
		return err
	}
	return s.call(func(e *cError) int32 { return raw.Kvc_trace_record(s.token, name, unsafe.Pointer(e)) })
}

// Event is what happened to a chunk.
type Event struct {
	Kind                   EventKind
	TierFrom, TierTo       Tier
	SequenceNumber         uint64 // rises by one in a queue; a gap means loss
	TokenBegin, TokenCount uint64
	Scope, Chunk, Parent   [32]byte
	Tokens                 []int32
}

// Watch sends events of a scope, nil: of all, to the queue, instead of those before; no kinds end it.
func (q *Queue) Watch(scope *Scope, kinds EventKind) error {
	defer runtime.KeepAlive(q)
	defer runtime.KeepAlive(scope)
	var token uintptr
	if scope != nil {
		if scope.store != q.store {
			return refused(ErrMisuse, "the queue is of another store")
		}
		token = scope.token
	}
	return q.call(func(e *cError) int32 {
		return raw.Kvc_event_watch(q.pump.token, token, uint32(kinds), unsafe.Pointer(e))
	})
}

// Events takes the events that wait.
func (q *Queue) Events() ([]Event, error) {
	defer runtime.KeepAlive(q)
	q.drain.Lock() // an event's ids are lent until the next call
	defer q.drain.Unlock()
	var out []Event
	for {
		before := len(out)
		err := q.call(func(e *cError) int32 {
			q.event[0].size = uint32(unsafe.Sizeof(q.event[0]))
			count := new(uint64)
			status := raw.Kvc_event_drain(unsafe.Pointer(q.event), uint64(len(q.event)), count, q.pump.token, unsafe.Pointer(e))
			for i := range q.event[:*count] { // here, as nothing closes before the call is out
				out = append(out, q.event[i].copied())
			}
			return status
		})
		if err != nil || len(out) == before {
			return out, err
		}
	}
}

func (c *cEvent) copied() Event {
	e := Event{c.kind, c.tierFrom, c.tierTo, c.sequenceNumber, c.tokenBegin, c.tokenCount, c.scope, c.chunk, c.parent, nil}
	if c.tokens != nil {
		e.Tokens = append(e.Tokens, unsafe.Slice((*int32)(c.tokens), c.tokenCount)...)
	}
	return e
}

// EventsReady has something in it when events may wait: take them with Events.
func (q *Queue) EventsReady() <-chan struct{} { return q.events }
