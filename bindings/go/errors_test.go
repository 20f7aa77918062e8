package kvc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A failure is of its status, of what Go calls it, and of the system's number; its message is one line with the value.
func TestErrorsAreComparable(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	_, err := scope.Get(background, []byte("none"))
	expectStatus(t, err, ErrNotFound)
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrGone) || errors.Is(err, os.ErrClosed) {
		t.Fatal("not found is fs.ErrNotExist, and nothing else")
	}
	var failed *Error
	if !errors.As(err, &failed) || failed.Status != ErrNotFound || failed.Status.Error() != "KVC_ERR_NOT_FOUND" {
		t.Fatalf("%#v", err)
	}
	seq := written(t, scope, 1, 1, 20)
	err = seq.Save(background, filepath.Join(t.TempDir(), "no", "such", "folder"))
	expectStatus(t, err, ErrIO)
	if !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("%v is not ENOENT", err)
	}
	if Status(12345).Error() != "KVC_STATUS_UNKNOWN" {
		t.Fatal(Status(12345).Error())
	}
}

// A read that fails says how far it is right.
func TestFailedReadSaysWhatIsDone(t *testing.T) {
	seq := written(t, openScope(t, openStore(t, nil), "m"), 1, 1, 20)
	_, err := seq.Gather(background, emptyCache(0, 21).rows())
	expectStatus(t, err, ErrRange, "21")
}

// What ends by its context is of the context's error, with its cause; an ended context starts nothing.
func TestContextEndsCalls(t *testing.T) {
	store := openStore(t, &StoreOptions{Flags: OpenWait, MemoryBytes: 4 << 20, OpenBytesMax: 2 << 20})
	scope := openScope(t, store, "m")
	full := written(t, scope, 1, 1, 40)
	var held []*Seq
	for i := int32(2); ; i++ { // until nothing more has room
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		seq := must[*Seq](t)(scope.Create(&SeqOptions{Lease: Forever}))
		err := seq.Append(ctx, prompt(i, 8), stamped(int(i), 0, 8).rows())
		cancel()
		held = append(held, seq)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) && !(errors.Is(err, context.DeadlineExceeded) && (errors.Is(err, ErrTimeout) || errors.Is(err, ErrCancelled))) {
			t.Fatal(err)
		}
		break
	}
	ctx, cancel := context.WithCancelCause(background)
	reason := errors.New("the user went away")
	done := make(chan error)
	memory := stamped(9, 0, 8)
	go func() {
		seq, err := scope.Create(nil)
		if err == nil {
			err = seq.Append(ctx, prompt(99, 8), memory.rows())
		}
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	cancel(reason)
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, reason) || !errors.Is(err, ErrCancelled) {
		t.Fatalf("%v is not of the context", err)
	}
	if err := held[0].Append(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: an ended context started a call", err)
	}
	expectRows(t, full, 1, 0, 40)
}
