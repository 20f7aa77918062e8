//! Rows in every kind of memory and layout, against arrays that are indexed by hand.

mod common;

use common::*;
use half::{bf16, f16};
use kvc::*;

const TOKENS: usize = 200;

fn seq(scope: &Scope) -> Seq {
    scope.seq(&SeqOptions::default()).unwrap()
}

#[test]
fn what_was_appended_is_gathered_bit_for_bit() {
    let store = store();
    let model = Model::new(TOKENS, 1);
    model.check(&model.store(&scope(&store)), TOKENS);
}

#[test]
fn every_half_there_is_survives_bit_for_bit() {
    let store = store();
    let scope = scope(&store);
    let k: Vec<f16> = (0..LAYERS * 2048 * ROW).map(|i| f16::from_bits(i as u16)).collect();
    let mut seq = scope.seq(&SeqOptions { private: true, ..Default::default() }).unwrap();
    let rows = rows(2048, 0, 2048);
    seq.append(&[], &rows, (&k, &k)).unwrap();
    let (mut got_k, mut got_v) = (vec![f16::ONE; k.len()], vec![f16::ONE; k.len()]);
    seq.gather(&rows, (&mut got_k, &mut got_v)).unwrap();
    let bits = |side: &[f16]| side.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(&got_k) == bits(&k) && bits(&got_v) == bits(&k));
}

/// Appends numbers of one type to a store of another, and reads them as a third.
fn converted<A: Element, B: Element>(
    stored: DType,
    from: fn(f32) -> A,
    to: fn(B) -> f32,
    want: fn(f32) -> f32,
) {
    let store = store();
    let scope = scope_of(&store, &shape(stored));
    let numbers: Vec<f32> = (0..LAYERS * 70 * ROW).map(|i| (i as f32 - 1000.0) / 7.0).collect();
    let given: Vec<A> = numbers.iter().map(|&x| from(x)).collect();
    let tokens: Vec<i32> = (0..70).collect();
    let layer = |bytes: usize| Strides { layer: (70 * ROW * bytes) as u64, ..Default::default() };
    let mut seq = seq(&scope);
    seq.append(&tokens, &Rows::new(0..3, 0..70).strides(layer(size_of::<A>())), (&given, &given))
        .unwrap();
    let (mut k, mut v) =
        (vec![given_zero::<B>(); given.len()], vec![given_zero::<B>(); given.len()]);
    seq.gather(&Rows::new(0..3, 0..70).strides(layer(size_of::<B>())), (&mut k, &mut v)).unwrap();
    for (i, &number) in numbers.iter().enumerate() {
        assert_eq!((to(k[i]), to(v[i])), (want(number), want(number)), "element {i}");
    }
}

fn given_zero<T: Element>() -> T {
    // SAFETY: every bit pattern is an element.
    unsafe { std::mem::zeroed() }
}

#[test]
fn floats_become_each_other_rounded_to_nearest() {
    let same = |x: f32| x;
    converted::<f32, f32>(DType::F32, same, same, same);
    converted::<f32, f32>(DType::F16, same, same, |x| f16::from_f32(x).to_f32());
    converted::<f32, f32>(DType::BF16, same, same, |x| bf16::from_f32(x).to_f32());
    converted::<f16, f32>(DType::F32, f16::from_f32, same, |x| f16::from_f32(x).to_f32());
    converted::<f16, bf16>(DType::F16, f16::from_f32, bf16::to_f32, |x| {
        bf16::from_f32(f16::from_f32(x).to_f32()).to_f32()
    });
    converted::<bf16, f16>(DType::BF16, bf16::from_f32, f16::to_f32, |x| {
        bf16::from_f32(x).to_f32()
    });
    converted::<bf16, bf16>(DType::BF16, bf16::from_f32, bf16::to_f32, |x| {
        bf16::from_f32(x).to_f32()
    });
}

#[test]
fn bytes_are_of_the_shape_s_dtype_or_of_the_one_that_is_stated() {
    let store = store();
    for (dtype, bytes) in [(DType::F8E4M3, 1), (DType::F16, 2), (DType::F32, 4)] {
        let scope = scope_of(&store, &shape(dtype));
        let mut random = Random::new(bytes as u64);
        let data: Vec<u8> = (0..LAYERS * 70 * ROW * bytes).map(|_| random.next() as u8).collect();
        let rows = Rows::new(0..3, 0..70)
            .strides(Strides { layer: (70 * ROW * bytes) as u64, ..Default::default() });
        let mut seq = seq(&scope);
        seq.append(&(0..70).collect::<Vec<_>>(), &rows, (&data, &data)).unwrap();
        for rows in [rows, rows.dtype(dtype)] {
            let (mut k, mut v) = (vec![0xA5u8; data.len()], vec![0x5Au8; data.len()]);
            seq.gather(&rows, (&mut k, &mut v)).unwrap();
            assert!(k == data && v == data, "{dtype:?}");
        }
    }
}

#[test]
fn arrays_of_arrays_are_memory_too() {
    let store = store();
    let scope = scope(&store);
    let mut k = [[[[0u16; DIM]; HEADS]; 70]; LAYERS];
    for (i, element) in
        k.as_flattened_mut().as_flattened_mut().as_flattened_mut().iter_mut().enumerate()
    {
        *element = i as u16;
    }
    let mut seq = seq(&scope);
    seq.append(&[7; 70], &rows(70, 0, 70), (&k, &k)).unwrap();
    let (mut got_k, mut got_v) =
        ([[[[1u16; DIM]; HEADS]; 70]; LAYERS], Box::new([[[[1u16; DIM]; HEADS]; 70]; LAYERS]));
    seq.gather(&rows(70, 0, 70), (&mut got_k, &mut *got_v)).unwrap();
    assert!(got_k == k && *got_v == k);
}

#[test]
fn axes_may_come_in_any_order_on_both_sides() {
    let store = store();
    let model = Model::new(TOKENS, 2);
    let seq = model.store(&scope(&store));
    // K [layer][head][token][dim], V [layer][head][dim][token]
    let k_axes =
        [(Axis::Layer, LAYERS), (Axis::Head, HEADS), (Axis::Token, TOKENS), (Axis::Dim, DIM)];
    let v_axes =
        [(Axis::Layer, LAYERS), (Axis::Head, HEADS), (Axis::Dim, DIM), (Axis::Token, TOKENS)];
    let rows = Rows::new(0..3, 0..TOKENS as u64)
        .k(Side { strides: Strides::row_major(&k_axes, 2), ..Default::default() })
        .v(Side { memory: 1, strides: Strides::row_major(&v_axes, 2), ..Default::default() });
    let (mut k, mut v) = (vec![POISON; model.k.len()], vec![POISON; model.v.len()]);
    seq.gather(&rows, (&mut k, &mut v)).unwrap();
    for layer in 0..LAYERS {
        for token in 0..TOKENS {
            for i in 0..ROW {
                let (head, dim) = (i / DIM, i % DIM);
                let got_k = k[((layer * HEADS + head) * TOKENS + token) * DIM + dim];
                let got_v = v[((layer * HEADS + head) * DIM + dim) * TOKENS + token];
                assert_eq!(
                    (got_k, got_v),
                    (model.at(layer, token).0[i], model.at(layer, token).1[i])
                );
            }
        }
    }
}

/// f16 [layers][K, V][blocks][16][heads][dim].
struct Pool {
    memory: Vec<u16>,
    table: Vec<i32>,
}

const BLOCKS: usize = 40;
const SIDE: usize = BLOCKS * 16 * ROW;

impl Pool {
    fn new(seed: u64) -> Self {
        let table = Random::new(seed).shuffled(BLOCKS)[..TOKENS.div_ceil(16)].to_vec();
        Self { memory: vec![POISON; LAYERS * 2 * SIDE], table }
    }

    fn rows(&self, begin: u64, end: u64) -> Rows<'_> {
        Rows::new(0..LAYERS as u32, begin..end)
            .slot_begin(begin)
            .blocks(16, &self.table)
            .strides(Strides {
                layer: 2 * SIDE as u64 * 2,
                block: 16 * ROW as u64 * 2,
                ..Default::default()
            })
            .v_offset(SIDE * 2)
    }

    fn element(&self, side: usize, layer: usize, token: usize) -> usize {
        (layer * 2 + side) * SIDE + (self.table[token / 16] as usize * 16 + token % 16) * ROW
    }

    fn check(&self, model: &Model, begin: usize, end: usize) {
        let mut want = vec![POISON; self.memory.len()];
        for layer in 0..LAYERS {
            for token in begin..end {
                let (k, v) = model.at(layer, token);
                for (side, row) in [k, v].into_iter().enumerate() {
                    let at = self.element(side, layer, token);
                    want[at..at + ROW].copy_from_slice(row);
                }
            }
        }
        assert!(self.memory == want, "a row is wrong, or something was written between the rows");
    }
}

#[test]
fn both_sides_of_all_layers_may_lie_in_one_pool_behind_a_block_table() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(TOKENS, 3);
    let first = model.store(&scope);
    let mut pool = Pool::new(3);
    let (table, mut memory) = (pool.table.clone(), std::mem::take(&mut pool.memory));
    let described = Pool { memory: Vec::new(), table };
    first.gather(&described.rows(0, 200), &mut memory).unwrap();
    pool.memory = memory;
    pool.check(&model, 0, 200);
    // and back, in three appends
    let mut seq = scope.seq(&SeqOptions { private: true, ..Default::default() }).unwrap();
    for (begin, end) in [(0, 70), (70, 120), (120, 200)] {
        seq.append(&model.tokens[begin..end], &pool.rows(begin as u64, end as u64), &pool.memory)
            .unwrap();
    }
    model.check(&seq, TOKENS);
    // some of it alone
    pool.memory.fill(POISON);
    let mut memory = std::mem::take(&mut pool.memory);
    seq.gather(&pool.rows(150, 170), &mut memory[..]).unwrap();
    pool.memory = memory;
    pool.check(&model, 150, 170);
}

#[test]
fn several_descriptions_share_one_pool_or_have_memory_each() {
    let store = store();
    let model = Model::new(TOKENS, 4);
    let seq = model.store(&scope(&store));
    // one memory: K of each layer in front, V behind all of them
    let mut both = vec![POISON; model.k.len() * 2];
    let side = TOKENS * ROW * 2;
    let of_layer = |layer: usize| {
        Rows::new(layer as u32..layer as u32 + 1, 0..TOKENS as u64)
            .k_offset(layer * side)
            .v_offset((LAYERS + layer) * side)
    };
    let runs: Vec<_> = (0..LAYERS).map(of_layer).collect();
    seq.gather(&runs, &mut both).unwrap();
    model.check_memory(&both[..model.k.len()], &both[model.k.len()..], TOKENS);
    // a pair of arrays a layer
    let mut arrays = vec![vec![POISON; TOKENS * ROW]; LAYERS * 2];
    let of_layer = |layer: usize| {
        let side = |of: usize| Side { memory: layer * 2 + of, ..Default::default() };
        Rows::new(layer as u32..layer as u32 + 1, 0..TOKENS as u64).k(side(0)).v(side(1))
    };
    let runs: [_; LAYERS] = std::array::from_fn(of_layer);
    let mut slices: Vec<&mut [u16]> = arrays.iter_mut().map(|array| &mut array[..]).collect();
    seq.gather(&runs, Many(&mut slices[..])).unwrap();
    let concat =
        |of: usize| arrays.iter().skip(of).step_by(2).flatten().copied().collect::<Vec<_>>();
    model.check_memory(&concat(0), &concat(1), TOKENS);
    // and they are read the same way
    let mut again = store
        .scope(&ScopeOptions {
            model: "again",
            shape: Some(&shape(DType::F16)),
            ..Default::default()
        })
        .unwrap()
        .seq(&SeqOptions::default())
        .unwrap();
    let slices: Vec<&[u16]> = arrays.iter().map(|array| &array[..]).collect();
    again.append(&model.tokens, &runs, Many(&slices[..])).unwrap();
    model.check(&again, TOKENS);
}

#[test]
fn some_layers_some_heads_some_tokens_one_side_alone() {
    let store = store();
    let model = Model::new(TOKENS, 5);
    let seq = model.store(&scope(&store));
    let mut k = vec![POISON; 2 * 30 * DIM];
    let rows = Rows::new(1..3, 70..100)
        .heads(1..2)
        .strides(Strides { layer: 30 * DIM as u64 * 2, ..Default::default() })
        .without_v();
    seq.gather(&rows, &mut k).unwrap();
    for (i, row) in k.chunks(DIM).enumerate() {
        assert_eq!(row, &model.at(1 + i / 30, 70 + i % 30).0[DIM..]);
    }
    // listed entries of 16 tokens, the last of them first
    let list = [11u64, 2, 5];
    let mut v = vec![POISON; 48 * ROW];
    seq.gather(&Rows::new(2..3, ..).token_list(&list, 16).without_k(), (&mut [0u16; 0], &mut v))
        .unwrap();
    for (i, row) in v.chunks(ROW).enumerate() {
        assert_eq!(row, model.at(2, list[i / 16] as usize * 16 + i % 16).1);
    }
    // to where the rows go
    let (mut k, mut v) = (vec![POISON; 20 * ROW], vec![POISON; 20 * ROW]);
    let report = seq.gather(&Rows::new(0..1, 180..), (&mut k, &mut v)).unwrap();
    assert_eq!(report.done, 200);
    assert_eq!(&k[19 * ROW..], model.at(0, 199).0);
}

#[test]
fn aligned_memory_is_memory_as_any_other() {
    let store = store();
    let model = Model::new(TOKENS, 7);
    let seq = model.store(&scope(&store));
    let (mut k, mut v) = (Aligned::zeroed(model.k.len()), Aligned::<u16>::zeroed(model.v.len()));
    assert!(
        k.iter().all(|&bits| bits == 0)
            && k.as_ptr() as usize % 64 == 0
            && Aligned::<f32>::zeroed(0).is_empty()
    );
    seq.gather(&model.rows(0, TOKENS), (&mut k, &mut v)).unwrap();
    model.check_memory(&k, &v, TOKENS);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    let ((k, v), report) = queue
        .gather(&seq, &model.rows(0, TOKENS), (Aligned::zeroed(k.len()), Aligned::zeroed(k.len())))
        .wait();
    report.unwrap();
    model.check_memory(&k, &v, TOKENS);
}

#[test]
fn memory_at_an_address_serves_threads_that_write_other_blocks_of_it() {
    let store = store();
    let scope = scope(&store);
    let models: Vec<_> = (0..4).map(|i| Model::new(TOKENS, 50 + i)).collect();
    let seqs: Vec<_> = models.iter().map(|model| model.store(&scope)).collect();
    let blocks = 64;
    let mut pool = vec![POISON; blocks * 16 * ROW * 2];
    let (count, address) = (pool.len(), pool.as_mut_ptr() as usize);
    std::thread::scope(|threads| {
        for (i, seq) in seqs.iter().enumerate() {
            threads.spawn(move || {
                let table: Vec<i32> = (0..13).map(|block| i as i32 * 13 + block).collect();
                let rows = Rows::new(0..1, 0..TOKENS as u64)
                    .blocks(16, &table)
                    .v_offset(blocks * 16 * ROW * 2);
                // SAFETY: the pool outlives the threads, and each writes blocks of its own.
                let memory = unsafe { RawMemory::new(address as *mut u16, count) };
                seq.gather(&rows, memory).unwrap();
            });
        }
    });
    for (i, model) in models.iter().enumerate() {
        for token in 0..TOKENS {
            let at = (i * 13 * 16 + token) * ROW;
            assert_eq!(&pool[at..at + ROW], model.at(0, token).0);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_by_value_and_rule() {
    let store = store();
    let model = Model::new(TOKENS, 6);
    let seq = model.store(&scope(&store));
    let mut halves = vec![f16::ONE; TOKENS * ROW];
    let mut bits = vec![0u16; TOKENS * ROW];
    let one = Rows::new(0..1, 0..TOKENS as u64).without_v();
    refused(seq.gather(&one, &mut bits[1..]), ErrorKind::Argument, &["6398", "6400"]);
    refused(
        seq.gather(&one.dtype(DType::BF16), &mut halves),
        ErrorKind::Argument,
        &["BF16", "F16"],
    );
    refused(
        seq.gather(&one.dtype(DType::F32), &mut bits),
        ErrorKind::Argument,
        &["F32", "16 bits"],
    );
    refused(seq.gather(&one.k_offset(2), &mut bits), ErrorKind::Argument, &["6398", "6400"]);
    refused(seq.gather(&one.k_offset(6402), &mut bits), ErrorKind::Argument, &["6402", "6400"]);
    refused(
        seq.gather(&one.k(Side { memory: 2, ..Default::default() }), (&mut bits, &mut halves)),
        ErrorKind::Argument,
        &["memory 2"],
    );
    refused(
        seq.gather(&Rows::new(0..3, 0..9).without_v(), &mut bits),
        ErrorKind::Argument,
        &["layer_stride"],
    );
    refused(
        seq.gather(&Rows::new(3..4, 0..9).without_v(), &mut bits),
        ErrorKind::Range,
        &["layer"],
    );
    refused(
        seq.gather(&Rows::new(0..1, 190..210).without_v(), &mut bits),
        ErrorKind::Range,
        &["200"],
    );
    refused(
        seq.gather(&Rows::new(0..1, 0..TOKENS as u64), &mut bits),
        ErrorKind::Argument,
        &["one place"],
    );
    refused(seq.gather(&one.blocks(16, &[3; 13]), &mut bits), ErrorKind::Argument, &["block"]);
    #[allow(clippy::reversed_empty_ranges, reason = "it is refused")]
    let backwards = Rows::new(2..1, 9..3);
    refused(seq.gather(&backwards.without_v(), &mut bits), ErrorKind::Argument, &["0"]);
    refused(seq.gather(&[][..], &mut bits), ErrorKind::Argument, &[]);
}

/// Who forgets the values of two arrays, and gives one, would store its keys as values.
#[test]
fn keys_and_values_at_one_place_are_refused() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 7);
    let mut seq = scope.seq(&SeqOptions { private: true, ..Default::default() }).unwrap();
    let rows = model.rows(0, 100);
    refused(seq.append(&[], &rows, &model.k), ErrorKind::Argument, &["v.offset 0", "without_v"]);
    assert_eq!(seq.info().unwrap().tokens, 0);
    seq.append(&[], &rows, (&model.k, &model.v)).unwrap();
    model.check(&seq, 100);
}

/// Positions lie in the slots of their numbers, without a word about slots.
#[test]
fn rows_in_place_lie_at_their_positions() {
    assert_eq!(Rows::in_place(0..2, 64..128), Rows::new(0..2, 64..128).slot_begin(64));
}
