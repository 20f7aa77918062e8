package kvc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"kvc/internal/raw"
)

// Error makes a status comparable with errors.Is: errors.Is(err, kvc.ErrFull). It is the name that C gives it, as "KVC_ERR_FULL".
func (s Status) Error() string { return raw.Kvc_status_name(int32(s)) }

// Error is why a call failed.
type Error struct {
	Status  Status
	Retry   Retry
	Errno   syscall.Errno // 0, or what the system said
	Message string        // one line: the value and the rule it broke
	Done    uint64        // Result.Done of a call that has one: the part of a read below it is right

	cause error // the context's, where that ended the call
}

func (e *Error) Error() string { return "kvc: " + e.Message }

// Is reports whether e is of the status target, or what Go calls it: os.ErrClosed (stale), fs.ErrNotExist (not found), context.Canceled,
// context.DeadlineExceeded (timeout).
func (e *Error) Is(target error) bool {
	if status, ok := target.(Status); ok {
		return e.Status == status
	}
	switch target {
	case os.ErrClosed:
		return e.Status == ErrStale
	case fs.ErrNotExist:
		return e.Status == ErrNotFound
	case context.Canceled:
		return e.Status == ErrCancelled && e.cause == nil
	case context.DeadlineExceeded:
		return e.Status == ErrTimeout && e.cause == nil
	}
	return false
}

// Unwrap gives the context's error and the system's, where there are any.
func (e *Error) Unwrap() []error {
	var out []error
	if e.cause != nil {
		out = append(out, e.cause)
	}
	if e.Errno != 0 {
		out = append(out, e.Errno)
	}
	return out
}

func newError(e *cError) *Error {
	return &Error{Status: e.status, Retry: e.retry, Errno: syscall.Errno(e.systemError), Message: text(e.message[:])}
}

func refused(status Status, message string) *Error { return &Error{Status: status, Message: message} }

// ended says of what a call came to that it was the end of its context, in an error of this caller's own.
func ended(ctx context.Context, err *Error) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Millisecond && ctx.Done() != nil {
		<-ctx.Done() // whose clock is a little late
	}
	cause := ctx.Err()
	if cause == nil || (err.Status != ErrCancelled && err.Status != ErrTimeout && err.Status != ErrFull) {
		return err
	}
	own := *err
	own.cause = errors.Join(cause, context.Cause(ctx))
	if own.Status == ErrCancelled && errors.Is(cause, context.DeadlineExceeded) {
		own.Status = ErrTimeout
	}
	return &own
}

// text is what stands before the first zero.
func text(data []byte) string {
	if end := strings.IndexByte(unsafe.String(unsafe.SliceData(data), len(data)), 0); end >= 0 {
		data = data[:end]
	}
	return string(data)
}

func init() {
	if version := raw.Kvc_version(); version>>16 != versionMajor || (versionMajor == 0 && version>>8&255 != versionMinor) {
		panic("kvc: libkvc " + versionText(version) + " is loaded, the package is of another version")
	}
}
