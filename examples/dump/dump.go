// Package dump reads what an engine computed from a safetensors file: k and v [layers, heads, tokens, dim] f16, token_ids [tokens] i32, and what else a
// program asks for.
package dump

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
)

// Tensor is one array of the file.
type Tensor struct {
	Shape []int
	Data  []byte
}

// Dump has the arrays, and the counts of k.
type Dump struct {
	Tensors                    map[string]Tensor
	Layers, Heads, Tokens, Dim int
	K, V                       []byte
	IDs                        []int32
}

var errKind = errors.New("no such file, or no dump of this kind")

// Read reads a file that has tokens at least.
func Read(path string, tokens int) (*Dump, error) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return nil, errKind
	}
	header, body := data[8:8+binary.LittleEndian.Uint64(data)], data[8+binary.LittleEndian.Uint64(data):]
	var entries map[string]struct {
		Dtype       string
		Shape       []int
		DataOffsets []int `json:"data_offsets"`
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal(header, &raw) != nil {
		return nil, errKind
	}
	delete(raw, "__metadata__")
	if clean, err := json.Marshal(raw); err != nil || json.Unmarshal(clean, &entries) != nil {
		return nil, errKind
	}
	d := &Dump{Tensors: map[string]Tensor{}}
	for _, name := range []string{"k", "v", "token_ids", "q", "attn_out"} {
		e, there := entries[name]
		if !there {
			continue
		}
		size := map[string]int{"F16": 2, "F32": 4, "I32": 4}[e.Dtype]
		for _, n := range e.Shape {
			if n <= 0 || n >= 1<<15 {
				return nil, errKind
			}
			size *= n
		}
		if len(e.DataOffsets) != 2 || size == 0 || e.DataOffsets[0] < 0 || e.DataOffsets[1] > len(body) || e.DataOffsets[1]-e.DataOffsets[0] != size {
			return nil, errKind
		}
		d.Tensors[name] = Tensor{e.Shape, body[e.DataOffsets[0]:e.DataOffsets[1]]}
	}
	return d, d.fill(tokens)
}

func (d *Dump) fill(tokens int) error {
	k, v, ids := d.Tensors["k"], d.Tensors["v"], d.Tensors["token_ids"]
	if len(k.Shape) != 4 || len(v.Data) != len(k.Data) || k.Shape[2] < tokens || len(ids.Data) != 4*k.Shape[2] {
		return errKind
	}
	d.Layers, d.Heads, d.Tokens, d.Dim = k.Shape[0], k.Shape[1], k.Shape[2], k.Shape[3]
	d.K, d.V = k.Data, v.Data
	d.IDs = make([]int32, d.Tokens)
	_, err := binary.Decode(ids.Data, binary.LittleEndian, d.IDs)
	return err
}
