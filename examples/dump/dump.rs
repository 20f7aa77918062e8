//! Reads what an engine computed from a safetensors file: k and v [layers, heads, tokens, dim] f16, token_ids [tokens] i32, and what else a
//! program asks for.

use std::fmt;
use std::ops::Range;

/// One array of the file.
#[derive(Clone, Debug, Default)]
pub struct Tensor {
    pub shape: Vec<usize>,
    at: Range<usize>,
}

/// The arrays, and the counts of k.
#[derive(Debug)]
pub struct Dump {
    file: Vec<u8>,
    header: String,
    pub layers: usize,
    pub heads: usize,
    pub tokens: usize,
    pub dim: usize,
    k: Tensor,
    v: Tensor,
    pub ids: Vec<i32>,
}

#[derive(Debug)]
pub struct NoDump;

impl fmt::Display for NoDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such file, or no dump of this kind")
    }
}

impl std::error::Error for NoDump {}

/// The numbers behind `"tensor":{ ... "key":[`.
fn numbers(header: &str, tensor: &str, key: &str) -> Option<Vec<usize>> {
    let entry = header.split_once(&format!("\"{tensor}\":{{"))?.1.split_once('}')?.0;
    let list = entry.split_once(&format!("\"{key}\":["))?.1.split_once(']')?.0;
    list.split(',').map(|text| text.trim().parse().ok()).collect()
}

impl Dump {
    /// A file that has `tokens` at least.
    pub fn read(path: &str, tokens: usize) -> Result<Self, NoDump> {
        Self::of(std::fs::read(path).map_err(|_| NoDump)?, tokens).ok_or(NoDump)
    }

    fn of(mut file: Vec<u8>, tokens: usize) -> Option<Self> {
        let size = usize::try_from(u64::from_le_bytes(*file.first_chunk()?)).ok()?;
        let header = String::from_utf8(file.get(8..size.checked_add(8)?)?.to_vec()).ok()?;
        file.drain(..8 + size);
        let mut out = Self {
            file,
            header,
            layers: 0,
            heads: 0,
            tokens: 0,
            dim: 0,
            k: Tensor::default(),
            v: Tensor::default(),
            ids: Vec::new(),
        };
        (out.k, out.v) = (out.tensor("k", 2)?, out.tensor("v", 2)?);
        [out.layers, out.heads, out.tokens, out.dim] = out.k.shape.clone().try_into().ok()?;
        let ids = out.tensor("token_ids", 4)?;
        out.ids = out
            .data(&ids)
            .chunks_exact(4)
            .map(|id| i32::from_le_bytes([id[0], id[1], id[2], id[3]]))
            .collect();
        (out.v.shape == out.k.shape && out.tokens >= tokens && out.ids.len() == out.tokens)
            .then_some(out)
    }

    /// One array, of elements of so many bytes.
    pub fn tensor(&self, name: &str, element_bytes: usize) -> Option<Tensor> {
        let shape = numbers(&self.header, name, "shape")?;
        let [begin, end] = numbers(&self.header, name, "data_offsets")?.try_into().ok()?;
        if shape.iter().any(|&n| n == 0 || n >= 1 << 15) {
            return None;
        }
        let bytes = shape.iter().product::<usize>() * element_bytes;
        (end <= self.file.len() && begin.checked_add(bytes)? == end)
            .then_some(Tensor { shape, at: begin..end })
    }

    pub fn data(&self, tensor: &Tensor) -> &[u8] {
        &self.file[tensor.at.clone()]
    }

    pub fn k(&self) -> &[u8] {
        self.data(&self.k)
    }

    pub fn v(&self) -> &[u8] {
        self.data(&self.v)
    }
}
