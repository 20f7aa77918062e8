// Package kvc is a store for the key/value cache of transformer attention: libkvc, from Go.
//
// An engine appends the K and V rows that it computes and gathers them back later, whole or in part, in any layout; prefixes that several
// requests share are found by their token ids and kept once.
//
//	store, err := kvc.Open("mem:", nil)
//	scope, err := store.Scope(kvc.ScopeOptions{Model: "llama", Shape: &kvc.Shape{DType: kvc.F16, Layers: layers}})
//	seq, info, err := scope.Match(ctx, prompt, &kvc.SeqOptions{TokensMax: uint64(len(prompt) - 1)})
//	_, err = seq.Gather(ctx, rows)                   // the info.Tokens that were there
//	err = seq.Append(ctx, prompt[info.Tokens:], rest) // those that the engine computed
//
// What the C header says of a call holds for the method of that name; kvc/kvc.h is the manual. What is different here:
//
// Memory is that of Go's slices ([]byte, []uint16, []float32: [Of]) or any other ([At]), read and written in place. It is the caller's again when
// the call returned; of a [Queue]'s call when its [Call] is done. Until then it is pinned, and nobody else may write it.
//
// Contexts. A call whose context can end runs in a queue of the store, with the context's deadline. When the context ends the call is asked to stop,
// and returns when its memory is free again: at once if it had not started, else when it came to an end. The error then is that of the context too:
// errors.Is(err, context.Canceled). With context.Background() the call blocks, up to StoreOptions.Timeout. Of a store opened with
// [OpenHostDriven] calls block always, up to the context's deadline.
//
// Errors are *[Error]; errors.Is(err, kvc.ErrFull) asks for a status.
//
// Closing. Every object has a Close; a second one gives [ErrStale]. The order does not matter, and what was forgotten is released when it is collected
// ([ReportLeaks] tells of it), but for views, whose memory somebody may read still. Methods are safe for concurrent use where C says so: those of a
// sequence that write (Append, Truncate, Compact, Identify, Hint, Publish) must be alone on it. Store.Close waits for calls that are running.
//
// The package links with libkvc through pkg-config: kvc.pc must be on PKG_CONFIG_PATH.
package kvc
