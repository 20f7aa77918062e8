// Questions about a long document, in Go: what document.c does, whose first comment says it, and the same output.
//
//	PKG_CONFIG_PATH=... go build -o document ./document/go    (in examples/)
//	./document DUMP
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"examples/dump"
	"kvc"
)

const step, question, passage = 512, 16, 64

// bound is explained in document.c.
const bound = 0.01

var ctx = context.Background()

type document struct {
	*dump.Dump
	queryHeads, positions, tokens int // tokens: of the document, without the questions
	q, model                      []byte
}

func read(path string) (*document, error) {
	d, err := dump.Read(path, 2*passage)
	if err != nil {
		return nil, err
	}
	q, out := d.Tensors["q"], d.Tensors["attn_out"]
	if len(q.Shape) != 4 || len(out.Data) != len(q.Data) || q.Shape[0] != d.Layers || q.Shape[1]%d.Heads != 0 || q.Shape[2]%question != 0 ||
		q.Shape[2]+2*passage > d.Tokens || q.Shape[3] != d.Dim {
		return nil, errors.New("no such file, or no dump of this kind")
	}
	return &document{d, q.Shape[1], q.Shape[2], d.Tokens - q.Shape[2], q.Data, out.Data}, nil
}

// append appends tokens [begin, end) as they lie in the dump.
func (d *document) append(seq *kvc.Seq, begin, end int) error {
	row := uint64(d.Dim * 2)
	side := func(data []byte) kvc.Array {
		return kvc.Array{Memory: kvc.Of(data), TokenStride: row, HeadStride: uint64(d.Tokens) * row, LayerStride: uint64(d.Heads*d.Tokens) * row}
	}
	return seq.Append(ctx, d.IDs[begin:end], kvc.Rows{LayerCount: uint32(d.Layers), TokenBegin: uint64(begin), SlotBegin: uint64(begin), TokenCount: uint64(end - begin),
		K: side(d.K), V: side(d.V)})
}

// asked is a question, and what is computed for it.
type asked struct {
	number, begin, end int       // its own tokens
	k, v               []float32 // of a layer: [head][dim][token], [head][token][dim]
	weights            []float32 // of a query
	mass               []float64 // of the passages
	worst              float64
}

// gather takes all rows of a layer.
func (d *document) gather(seq *kvc.Seq, of *asked, layer int) error {
	const element = 4
	row, end := uint64(d.Dim*element), uint64(of.end)
	_, err := seq.Gather(ctx, kvc.Rows{LayerBegin: uint32(layer), LayerCount: 1, TokenCount: end,
		K: kvc.Array{Memory: kvc.Of(of.k), DType: kvc.F32, HeadStride: row * end, TokenStride: element, DimStride: end * element},
		V: kvc.Array{Memory: kvc.Of(of.v), DType: kvc.F32, HeadStride: row * end, TokenStride: row, DimStride: element}})
	return err
}

func half(data []byte, i int) float32 {
	bits := binary.LittleEndian.Uint16(data[2*i:])
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	if exponent == 0 {
		exponent = 1
	} else {
		fraction += 1024
	}
	out := float32(math.Ldexp(fraction, exponent-25))
	if bits>>15 != 0 {
		return -out
	}
	return out
}

// attend is attention of one query over the tokens seen: the weights, and how far the output is from the model's.
func (d *document) attend(of *asked, q, model []byte, head, seen int) float64 {
	k, v, w := of.k[head*d.Dim*of.end:], of.v[head*of.end*d.Dim:], of.weights
	scale, top, sum := 1/float32(math.Sqrt(float64(d.Dim))), float32(math.Inf(-1)), float32(0)
	clear(w)
	for i := range d.Dim {
		query, keys := half(q, i)*scale, k[i*of.end:]
		for t := range w[:seen] {
			w[t] += query * keys[t]
		}
	}
	for _, x := range w[:seen] {
		top = max(top, x)
	}
	for t, x := range w[:seen] {
		w[t] = float32(math.Exp(float64(x - top)))
		sum += w[t]
	}
	for t := range w[:seen] {
		w[t] /= sum
	}
	var off, all float64
	for i := range d.Dim {
		expected, out := half(model, i), float32(0)
		for t, x := range w[:seen] {
			out += x * v[t*d.Dim+i]
		}
		off += float64(out-expected) * float64(out-expected)
		all += float64(expected) * float64(expected)
	}
	return math.Sqrt(off / all)
}

// look computes all queries of a question in one layer.
func (d *document) look(of *asked, layer int) error {
	for head := range d.queryHeads {
		for token := of.begin; token < of.end; token++ {
			at := ((layer*d.queryHeads+head)*d.positions + token - d.tokens) * d.Dim * 2
			off := d.attend(of, d.q[at:], d.model[at:], head/(d.queryHeads/d.Heads), token+1)
			if !(off <= bound) {
				return fmt.Errorf("question %d: layer %d, head %d, token %d is off by %.3f, the bound is %.2f", of.number, layer, head, token, off, bound)
			}
			of.worst = max(of.worst, off)
			for t, x := range of.weights[:d.tokens/passage*passage] {
				of.mass[t/passage] += float64(x)
			}
		}
	}
	return nil
}

func (d *document) ask(scope *kvc.Scope, number int) error {
	end := d.tokens + number*question
	side := d.Heads * d.Dim * end
	of := &asked{number: number, begin: end - question, end: end, k: make([]float32, side), v: make([]float32, side), weights: make([]float32, end),
		mass: make([]float64, d.tokens/passage)}
	// The model needs the last token's logits to answer: leave one to compute.
	seq, info, err := scope.Match(ctx, d.IDs[:end], &kvc.SeqOptions{TokensMax: uint64(end - 1)})
	if err != nil {
		return err
	}
	defer seq.Close()
	found := int(info.Tokens)
	if err = d.append(seq, found, end); err != nil { // computed now
		return err
	}
	for layer := range d.Layers {
		if err = d.gather(seq, of, layer); err == nil {
			err = d.look(of, layer)
		}
		if err != nil {
			return err
		}
	}
	best := 1
	for i := 1; i < len(of.mass); i++ {
		if of.mass[i] > of.mass[best] {
			best = i
		}
	}
	fmt.Printf("question %d: %d tokens, %d found, %d computed; off by %.3f; looks at passage %d, %.1f %%\n", number, end, found, end-found, of.worst, best,
		100*of.mass[best]/float64(d.Layers*d.queryHeads*question))
	return nil
}

// store appends the document, in prefill steps; what is sealed stays.
func (d *document) store(scope *kvc.Scope) error {
	seq, err := scope.Create(nil)
	if err != nil {
		return err
	}
	steps := 0
	for t := 0; t < d.tokens; t += step {
		if err = d.append(seq, t, min(t+step, d.tokens)); err != nil {
			return err
		}
		steps++
	}
	fmt.Printf("document: %d tokens in %d steps\n", d.tokens, steps)
	return seq.Close()
}

func run(path string) error {
	d, err := read(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	store, err := kvc.Open("mem:", nil)
	if err != nil {
		return err
	}
	defer store.Close()
	shape := kvc.Shape{DType: kvc.F16, Rope: kvc.RopeHalves,
		Layers: []kvc.Layer{{Count: uint32(d.Layers), Kind: kvc.LayerFull, KVHeads: uint32(d.Heads), KDim: uint32(d.Dim), VDim: uint32(d.Dim)}}}
	scope, err := store.Scope(kvc.ScopeOptions{Model: "document", Shape: &shape})
	if err != nil {
		return err
	}
	defer scope.Close()
	if err = d.store(scope); err != nil {
		return err
	}
	for number := 1; number <= d.positions/question; number++ {
		if err = d.ask(scope, number); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: document DUMP")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "document:", err)
		os.Exit(1)
	}
}
