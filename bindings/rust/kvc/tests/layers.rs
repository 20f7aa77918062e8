//! Layers that are not full attention: windows, latents, recurrent states.

mod common;

use common::{Random, refused, store};
use kvc::*;

const DIM: usize = 16;

fn scope(store: &Store, shape: &Shape) -> Scope {
    store
        .scope(&ScopeOptions { model: "hybrid", shape: Some(shape), ..Default::default() })
        .unwrap()
}

fn side(count: usize, seed: u64) -> Vec<u16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.next() as u16).collect()
}

#[test]
fn a_window_layer_serves_its_window() {
    let store = store();
    let shape = Shape::new(
        DType::F16,
        [Layer::full(1, 1, DIM as u32), Layer::window(1, 1, DIM as u32, 100)],
    );
    let scope = scope(&store, &shape);
    let (full, window) = (side(300 * DIM, 1), side(101 * DIM, 2));
    let tokens: Vec<i32> = (0..300).collect();
    let mut seq = scope.seq(&SeqOptions::default()).unwrap();
    // rows that no later query sees are left out: those below 300 + 1 - 100
    let runs = [
        Rows::new(0..1, 0..300).v(Side::default()),
        Rows::new(1..2, 199..300).k(Side { memory: 1, ..Default::default() }),
    ];
    seq.append(&tokens, &runs, (&full, &window)).unwrap();
    let (mut k, mut v) = (vec![0u16; 101 * DIM], vec![0u16; 101 * DIM]);
    seq.gather(&Rows::new(1..2, 199..300), (&mut k, &mut v)).unwrap();
    assert!(k == window && v == window);
    let mut early = vec![0u16; DIM];
    refused(seq.gather(&Rows::new(1..2, 5..6).without_v(), &mut early), ErrorKind::Gone, &[]);
}

#[test]
fn a_latent_row_has_its_rope_part_behind_it_or_beside_it() {
    let store = store();
    let shape = Shape::new(DType::BF16, [Layer::latent(2, 24, 8)]);
    assert_eq!(shape.check().unwrap().token_bytes, 2 * 32 * 2);
    let rows = side(2 * 70 * 32, 3);
    let mut seq = scope(&store, &shape).seq(&SeqOptions::default()).unwrap();
    let whole = Rows::new(0..2, 0..70)
        .strides(Strides { layer: 70 * 32 * 2, ..Default::default() })
        .without_v();
    seq.append(&(0..70).collect::<Vec<_>>(), &whole, &rows).unwrap();
    let (mut latent, mut rope) = (vec![0u16; 70 * 24], vec![0u16; 70 * 8]);
    seq.gather(&Rows::new(1..2, 0..70), (&mut latent, &mut rope)).unwrap();
    for token in 0..70 {
        let row = &rows[(70 + token) * 32..][..32];
        assert_eq!(
            (&latent[token * 24..][..24], &rope[token * 8..][..8]),
            (&row[..24], &row[24..])
        );
    }
}

#[test]
fn a_state_layer_keeps_snapshots_where_appends_end() {
    let store = store();
    let shape = Shape::new(DType::F16, [Layer::full(1, 1, DIM as u32), Layer::state(1, 2, 48, 16)]);
    assert_eq!(shape.check().unwrap().state_bytes, 2 * 64);
    let scope = scope(&store, &shape);
    let full = side(128 * DIM, 4);
    let snapshot = |seed: u64| -> Vec<u8> {
        side(64, seed)
            .into_iter()
            .map(|x| x as u8)
            .chain(std::iter::repeat_n(seed as u8, 64))
            .collect()
    };
    let tokens: Vec<i32> = (0..128).collect();
    let mut seq = scope.seq(&SeqOptions::default()).unwrap();
    for (begin, seed) in [(0, 5), (64, 6)] {
        let at = begin as usize * DIM * 2;
        let runs = [
            Rows::new(0..1, begin..begin + 64)
                .k_offset(at)
                .v(Side { offset: at, ..Default::default() }),
            Rows::new(1..2, begin..begin + 64)
                .k(Side { memory: 1, ..Default::default() })
                .v(Side { memory: 1, offset: 96, ..Default::default() }),
        ];
        seq.append(&tokens[begin as usize..begin as usize + 64], &runs, (&full, &snapshot(seed)))
            .unwrap();
    }
    let state = |seq: &Seq, at: u64| -> Result<Vec<u8>> {
        let mut out = vec![0u8; 128];
        seq.gather(
            &Rows::new(1..2, at - 1..at).v(Side { offset: 96, ..Default::default() }),
            &mut out,
        )
        .map(|_| out)
    };
    assert_eq!(state(&seq, 64).unwrap(), snapshot(5));
    assert_eq!(state(&seq, 128).unwrap(), snapshot(6));
    refused(state(&seq, 100), ErrorKind::NoSnapshot, &[]);
    refused(seq.truncate(100), ErrorKind::NoSnapshot, &[]);
    seq.truncate(64).unwrap();
    assert_eq!(state(&seq, 64).unwrap(), snapshot(5));
    let view = seq.view(1, 63).unwrap();
    assert_eq!((view.dtype(), &view.k()[..48]), (Some(DType::U8), &snapshot(5)[..48]));
    assert_eq!(scope.peek(&tokens, &SeqOptions::default()).unwrap().tokens, 128);
    refused(seq.compact(&[1]), ErrorKind::Unsupported, &[]);
}

#[test]
fn what_is_no_shape_is_refused_by_its_member() {
    let full = Layer::full(1, 1, 8);
    for (shape, word) in [
        (Shape::new(DType::F16, []), "layer_runs"),
        (Shape::new(DType::F16, [Layer { count: 0, ..full }]), "count"),
        (Shape::new(DType::F16, [Layer { kv_heads: 0, ..full }]), "kv_heads"),
        (Shape::new(DType::F16, [Layer::window(1, 1, 8, 0)]), "window"),
        (Shape { chunk_tokens: 20, ..Shape::new(DType::F16, [full]) }, "chunk_tokens"),
        (Shape::new(DType::F16, [Layer { rope_dim: 4, ..full }]), "rope_dim"),
    ] {
        refused(shape.check(), ErrorKind::Shape, &[word]);
        let options = ScopeOptions { model: "m", shape: Some(&shape), ..Default::default() };
        refused(store().scope(&options), ErrorKind::Shape, &[word]);
    }
    let one = Shape::new(DType::F16, [Layer::full(2, 1, 8), Layer::full(1, 1, 8)]);
    let other =
        Shape::new(DType::F16, [Layer { k_dtype: Some(DType::F16), ..Layer::full(3, 1, 8) }]);
    assert_eq!(
        one.check().unwrap(),
        other.check().unwrap(),
        "adjacent equal runs mean the same as one"
    );
}
