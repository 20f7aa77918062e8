"""Where K and V lie in llama.cpp's state of one sequence.

The bytes of llama_state_seq_get_data, little-endian (f16 cache, one stream):

    u32 magic, i32 sequence, u32 streams (1), u32 cells
    per cell           i32 position, u32 ids (1), i32 id
    u32 V transposed, u32 layers, u32 0, u32 0
    per layer, K       i32 ggml type, u64 row bytes, rows [cell][head][dim]
    per layer, V       the same; transposed (no flash attention): i32 ggml type, u32 element bytes, u32 channels, [head][dim][cell]

The layout is not documented and has changed between versions, so nothing of it is taken on trust: a blob is checked word by word against the
model and must be used up to its last byte, else UnknownLayout.  The rows themselves are never unpacked here: they are described to kvc, which
reads and writes them where they lie.
"""
import dataclasses
import struct

import numpy as np

import kvc

HEAD_BYTES, CELL_BYTES, MIDDLE_BYTES, SECTION_BYTES = 16, 12, 16, 12
CELL = np.dtype([("position", "<i4"), ("id_count", "<u4"), ("id", "<i4")])
GGML_F16 = 1
ELEMENT_BYTES = 2
NAN_BYTE = 0xFF  # 0xFFFF is a NaN in f16: a row that kvc did not write cannot pass unnoticed


class UnknownLayout(ValueError):
    pass


def _expect(what, found, wanted):
    if found != wanted:
        raise UnknownLayout(f"llama.cpp state: {what} is {found}, this layout has {wanted}")


@dataclasses.dataclass(frozen=True)
class StateLayout:
    """What is fixed for a model and its context; the number of cells varies."""
    magic: int
    transposed: bool
    layer_count: int
    kv_heads: int
    head_dim: int

    @property
    def row_bytes(self):
        return self.kv_heads * self.head_dim * ELEMENT_BYTES

    def _side_stride(self, cells):
        return SECTION_BYTES + cells * self.row_bytes

    def _k_begin(self, cells):
        return HEAD_BYTES + CELL_BYTES * cells + MIDDLE_BYTES

    def blob_bytes(self, cells):
        return self._k_begin(cells) + 2 * self.layer_count * self._side_stride(cells)

    def payload_bytes(self, cells):
        return 2 * self.layer_count * self.row_bytes * cells

    def _middle(self):
        return struct.pack("<4I", self.transposed, self.layer_count, 0, 0)

    def _section(self, layer):
        """The head in front of the rows of `layer`, counted through K and then V."""
        if layer >= self.layer_count and self.transposed:
            return struct.pack("<iII", GGML_F16, ELEMENT_BYTES, self.kv_heads * self.head_dim)
        return struct.pack("<iQ", GGML_F16, self.row_bytes)

    def forge(self, cells):
        """A blob of `cells` tokens at positions 0, 1, ... that lacks only the numbers."""
        blob = np.full(self.blob_bytes(cells), NAN_BYTE, np.uint8)
        blob[:HEAD_BYTES] = np.frombuffer(struct.pack("<IiII", self.magic, 0, 1, cells), np.uint8)
        table = blob[HEAD_BYTES:HEAD_BYTES + CELL_BYTES * cells].view(CELL)
        table["position"], table["id_count"], table["id"] = np.arange(cells), 1, 0
        k_begin, stride = self._k_begin(cells), self._side_stride(cells)
        blob[k_begin - MIDDLE_BYTES:k_begin] = np.frombuffer(self._middle(), np.uint8)
        for layer in range(2 * self.layer_count):
            begin = k_begin + layer * stride
            blob[begin:begin + SECTION_BYTES] = np.frombuffer(self._section(layer), np.uint8)
        return blob

    def rows(self, blob, cells, begin, end):
        """Tokens [begin, end) of a blob of `cells` tokens, for kvc to read or to write in place."""
        k_begin, stride = self._k_begin(cells) + SECTION_BYTES, self._side_stride(cells)
        head_bytes = self.head_dim * ELEMENT_BYTES
        by_token = dict(layer_stride=stride, token_stride=self.row_bytes, head_stride=head_bytes, dim_stride=ELEMENT_BYTES, dtype=kvc.F16)
        by_channel = dict(layer_stride=stride, token_stride=ELEMENT_BYTES, head_stride=head_bytes * cells, dim_stride=ELEMENT_BYTES * cells,
                          dtype=kvc.F16)
        return kvc.Rows(layer_begin=0, layer_count=self.layer_count, token_begin=begin, token_count=end - begin, slot_begin=begin,
                        k=kvc.Array(blob, offset=k_begin, **by_token),
                        v=kvc.Array(blob, offset=k_begin + self.layer_count * stride, **(by_channel if self.transposed else by_token)))

    def check(self, blob):
        """The number of tokens in a blob of llama.cpp, after comparing every byte of it that is not a number of K or V."""
        if len(blob) < HEAD_BYTES:
            raise UnknownLayout(f"llama.cpp state: {len(blob)} bytes, its head alone has {HEAD_BYTES}")
        magic, _, streams, cells = struct.unpack_from("<IiII", blob)
        _expect("magic", f"{magic:#x}", f"{self.magic:#x}")
        _expect("the number of streams", streams, 1)
        _expect(f"the size for {cells} cells", len(blob), self.blob_bytes(cells))
        table = blob[HEAD_BYTES:HEAD_BYTES + CELL_BYTES * cells].view(CELL)
        _expect("the order of positions", bool((table["position"] == np.arange(cells)).all()), True)
        _expect("one sequence id per cell", bool((table["id_count"] == 1).all()), True)
        k_begin, stride = self._k_begin(cells), self._side_stride(cells)
        _expect("the words behind the cells", blob[k_begin - MIDDLE_BYTES:k_begin].tobytes().hex(), self._middle().hex())
        for layer in range(2 * self.layer_count):
            begin = k_begin + layer * stride
            _expect(f"the head of section {layer}", blob[begin:begin + SECTION_BYTES].tobytes().hex(), self._section(layer).hex())
        return cells


def learn(blob, model):
    """The layout of the states that a context of `model` gives, seen in a first blob and checked against it."""
    if len(blob) < HEAD_BYTES:
        raise UnknownLayout(f"llama.cpp state: {len(blob)} bytes, its head alone has {HEAD_BYTES}")
    magic, _, _, cells = struct.unpack_from("<IiII", blob)
    middle = HEAD_BYTES + CELL_BYTES * cells
    if len(blob) < middle + MIDDLE_BYTES:
        raise UnknownLayout(f"llama.cpp state: {len(blob)} bytes cannot hold a table of {cells} cells")
    transposed, = struct.unpack_from("<I", blob, middle)
    if transposed > 1:
        raise UnknownLayout(f"llama.cpp state: V transposed is {transposed}, this layout has 0 or 1")
    layout = StateLayout(magic, bool(transposed), model.layer_count, model.kv_heads, model.head_dim)
    layout.check(blob)
    return layout
