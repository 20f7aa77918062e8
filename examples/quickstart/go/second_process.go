// A process of its own, in Go, that takes the document out of the file that the first one saved, and answers one question: what second_process.py
// does, and the same line.  llama.cpp is driven through its C API (llama.go).
//
//	second_process [--before LIBRARY] --library LIBRARY --model FILE.gguf --saved FILE --prefix FILE --scope NAME --revision TEXT --question TEXT [--threads N]
//
// The prefix is the text in front of the question, the question the text behind it, both with the marks of the chat template.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"kvc"
)

const contextTokens, answerTokens, storeBytes = 4096, 24, 1 << 30

var (
	ctx      = context.Background()
	library  = flag.String("library", "", "the shared library that has llama.cpp")
	before   = flag.String("before", "", "a library to load in front of it: libpython, for a llama.cpp that is a module of Python")
	model    = flag.String("model", "", "a GGUF file")
	saved    = flag.String("saved", "", "a file that kvc_seq_save wrote")
	prefix   = flag.String("prefix", "", "a file: the text in front of the question")
	name     = flag.String("scope", "", "the model's name in kvc")
	revision = flag.String("revision", "", "its revision there")
	question = flag.String("question", "", "the text behind the prefix")
	threads  = flag.Int("threads", 1, "of llama.cpp")
	plain    = flag.Bool("no-flash-attention", false, "V is transposed then")
)

type answer struct {
	Tokens         []int32 `json:"tokens"`
	Matched        int     `json:"matched_tokens"`
	Restored       int     `json:"restored_tokens"`
	FileBytes      int64   `json:"file_bytes"`
	ToLoad         float64 `json:"seconds_to_load"`
	ToRestore      float64 `json:"seconds_to_restore"`
	ToFirstToken   float64 `json:"seconds_to_first_token"`
	StateIdentical bool    `json:"state_identical"`
}

// ask answers with the prefix out of the store.
func ask(e *engine, l *layout, scope *kvc.Scope, prompt []int32, out *answer) error {
	e.clear()
	begin := time.Now()
	seq, info, err := scope.Match(ctx, prompt, &kvc.SeqOptions{TokensMax: uint64(len(prompt) - 1)})
	if err != nil {
		return err
	}
	defer seq.Close()
	matched := int(info.Tokens)
	blob := l.forge(matched)
	if _, err = seq.Gather(ctx, l.rows(blob, matched, 0, matched)); err != nil {
		return err
	}
	e.setState(blob)
	out.StateIdentical = string(e.state()) == string(blob)
	token := e.decode(prompt[matched:])
	out.ToFirstToken, out.Matched = time.Since(begin).Seconds(), matched
	out.Tokens = e.generate(token, answerTokens)
	whole := e.state() // what was computed now is left to others
	_, cells := learn(whole, e)
	ids := append(append([]int32(nil), prompt...), out.Tokens...)
	return seq.Append(ctx, ids[matched:cells], l.rows(whole, cells, matched, cells))
}

func run() (out answer, err error) {
	defer func() {
		if failed, ok := recover().(error); ok {
			err = failed
		}
	}()
	begin := time.Now()
	text, err := os.ReadFile(*prefix)
	if err != nil {
		return out, err
	}
	file, err := os.Stat(*saved)
	if err != nil {
		return out, err
	}
	e := open(*before, *library, *model, contextTokens, *threads, !*plain)
	document := e.tokenize(string(text))
	e.decode(document[:2])
	l, _ := learn(e.state(), e)
	out.FileBytes, out.ToLoad = file.Size(), time.Since(begin).Seconds()

	store, err := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: storeBytes})
	if err != nil {
		return out, err
	}
	defer store.Close()
	shape := kvc.Shape{DType: kvc.F16, Rope: kvc.RopePairs,
		Layers: []kvc.Layer{{Count: uint32(e.layers), Kind: kvc.LayerFull, KVHeads: uint32(e.kvHeads), KDim: uint32(e.headDim), VDim: uint32(e.headDim)}}}
	scope, err := store.Scope(kvc.ScopeOptions{Model: *name, Revision: *revision, Shape: &shape})
	if err != nil {
		return out, err
	}
	begin = time.Now()
	seq, err := scope.Restore(ctx, *saved, nil)
	if err != nil {
		return out, err
	}
	defer seq.Close()
	out.ToRestore = time.Since(begin).Seconds()
	info, err := seq.Info()
	if err != nil {
		return out, err
	}
	if out.Restored = int(info.Tokens); out.Restored != len(document) {
		return out, fmt.Errorf("the file gave %d tokens, the document has %d", out.Restored, len(document))
	}
	return out, ask(e, l, scope, append(document, e.tokenize(*question)...), &out)
}

func main() {
	flag.Parse()
	out, err := run()
	if err == nil && !out.StateIdentical {
		err = errors.New("llama.cpp gave another state than it was given")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
