//! The geometry of a model's cache.

use crate::error::{Result, check};
use crate::types::{DType, LayerKind, Rope};
use kvc_sys as sys;

/// A run of equal layers.  [`full`](Self::full), [`window`](Self::window), [`latent`](Self::latent) and [`state`](Self::state) make the
/// usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Layers in the run; not 0.
    pub count: u32,
    /// What they are.
    pub kind: LayerKind,
    /// KV heads.  Latent: 1.  State: what is split between ranks, or 1.
    pub kv_heads: u32,
    /// Elements of a key head.  Latent: of the latent.  State: bytes a head of the first part.
    pub k_dim: u32,
    /// Elements of a value head.  Latent: 0.  State: bytes a head of the second part.
    pub v_dim: u32,
    /// Latent: elements of the rope part; others: 0.
    pub rope_dim: u32,
    /// Window: tokens seen, the query's own included; others: 0.
    pub window: u32,
    /// Of the keys; `None`: the shape's.
    pub k_dtype: Option<DType>,
    /// Of the values, or of a latent layer's rope part; `None`: the shape's.
    pub v_dtype: Option<DType>,
}

impl Layer {
    /// Layers of full attention whose keys and values have heads of `dim` elements.
    #[must_use]
    pub const fn full(count: u32, kv_heads: u32, dim: u32) -> Self {
        Self {
            count,
            kind: LayerKind::Full,
            kv_heads,
            k_dim: dim,
            v_dim: dim,
            rope_dim: 0,
            window: 0,
            k_dtype: None,
            v_dtype: None,
        }
    }

    /// The same, of which a token sees only the last `window` tokens, itself included.
    #[must_use]
    pub const fn window(count: u32, kv_heads: u32, dim: u32, window: u32) -> Self {
        Self { kind: LayerKind::Window, window, ..Self::full(count, kv_heads, dim) }
    }

    /// Latent layers (MLA).
    #[must_use]
    pub const fn latent(count: u32, latent_dim: u32, rope_dim: u32) -> Self {
        Self {
            kind: LayerKind::Latent,
            k_dim: latent_dim,
            v_dim: 0,
            rope_dim,
            ..Self::full(count, 1, 0)
        }
    }

    /// Layers with a recurrent state of two parts, in bytes a head.
    #[must_use]
    pub const fn state(count: u32, kv_heads: u32, first_bytes: u32, second_bytes: u32) -> Self {
        Self {
            kind: LayerKind::State,
            k_dim: first_bytes,
            v_dim: second_bytes,
            ..Self::full(count, kv_heads, 0)
        }
    }

    fn raw(&self) -> sys::kvc_layer {
        sys::kvc_layer {
            count: self.count,
            kind: self.kind.raw(),
            kv_heads: self.kv_heads,
            k_dim: self.k_dim,
            v_dim: self.v_dim,
            rope_dim: self.rope_dim,
            window: self.window,
            k_dtype: self.k_dtype.map_or(0, DType::raw),
            v_dtype: self.v_dtype.map_or(0, DType::raw),
            reserved: [0; 3],
        }
    }
}

/// The geometry of a model's cache.  Two hosts share rows only if every member is equal.
///
/// ```
/// use kvc::{DType, Layer, Rope, Shape};
/// # fn main() -> kvc::Result<()> {
/// let llama = Shape { rope: Rope::Halves, ..Shape::new(DType::BF16, [Layer::full(32, 8, 128)]) };
/// assert_eq!(llama.check()?.token_bytes, 32 * 2 * 8 * 128 * 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Stored exactly as.
    pub dtype: DType,
    /// Tokens a chunk: a multiple of 16, at most 256; 0: 64.
    pub chunk_tokens: u32,
    /// The order of rotated channels: engines that differ must not share.
    pub rope: Rope,
    /// The runs, from the first layer on.
    pub layers: Vec<Layer>,
}

impl Shape {
    /// With chunks of 64 tokens, and nothing said of rotations.
    pub fn new(dtype: DType, layers: impl Into<Vec<Layer>>) -> Self {
        Self { dtype, chunk_tokens: 0, rope: Rope::Unstated, layers: layers.into() }
    }

    /// Validates it, and says what follows from it.  Needs no store.
    ///
    /// # Errors
    ///
    /// [`Shape`](crate::ErrorKind::Shape): it is none, and the message names the run and the member.
    pub fn check(&self) -> Result<ShapeInfo> {
        let mut info = sys::kvc_shape_info::init();
        let raw = self.raw();
        // SAFETY: both structs are sized, and the layers live on in `raw`.
        check(|error| unsafe { sys::kvc_shape_check(&raw mut info, &raw const raw.shape, error) })?;
        Ok(ShapeInfo {
            layer_count: info.layer_count,
            token_bytes: info.token_bytes,
            chunk_bytes: info.chunk_bytes,
            state_bytes: info.state_bytes,
            fingerprint: info.fingerprint,
        })
    }

    pub(crate) fn raw(&self) -> RawShape {
        let layers: Vec<_> = self.layers.iter().map(Layer::raw).collect();
        let mut shape = sys::kvc_shape::init();
        shape.dtype = self.dtype.raw();
        shape.chunk_tokens = self.chunk_tokens;
        shape.rope = self.rope.raw();
        shape.layers = crate::rows::pointer_of(&layers);
        shape.layer_runs = layers.len() as u64;
        RawShape { shape, _layers: layers }
    }
}

/// A shape as C takes it, with what it points to.
pub(crate) struct RawShape {
    pub(crate) shape: sys::kvc_shape,
    _layers: Vec<sys::kvc_layer>,
}

/// What follows from a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeInfo {
    /// Layers of all runs.
    pub layer_count: u32,
    /// Bytes a token takes, over all layers that keep rows.
    pub token_bytes: u64,
    /// Bytes a chunk's numbers take, headers not counted.
    pub chunk_bytes: u64,
    /// One snapshot of all state layers.
    pub state_bytes: u64,
    /// Equal in every process, language and machine.
    pub fingerprint: [u8; 32],
}
