//! What outlives what: stores, scopes, sequences, views, leases, regions.

mod common;

use common::*;
use half::{bf16, f16};
use kvc::*;

#[test]
fn a_store_closes_when_its_last_user_is_gone() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(200, 1);
    let seq = model.store(&scope);
    let again = store.clone();
    drop((store, scope));
    model.check(&seq, 200);
    let busy = again.clone().close().unwrap_err();
    assert!(busy.is_busy() && busy.message().contains('2'), "{busy}");
    drop(seq);
    again.close().unwrap();
}

#[test]
fn views_outlive_store_scope_and_sequence() {
    let model = Model::new(200, 2);
    let views: Vec<View> = {
        let store = store();
        let scope = scope(&store);
        let mut seq = model.store(&scope);
        let views = (0..LAYERS as u32)
            .flat_map(|layer| [0, 70, 199].map(|token| seq.view(layer, token).unwrap()))
            .collect();
        seq.truncate(10).unwrap();
        scope.clear().unwrap();
        views
    };
    for view in &views {
        let rows = view.k_strides().token as usize / 2;
        assert_eq!((view.heads(), view.dtype()), (0..2, Some(DType::F16)));
        for (i, token) in view.tokens().enumerate() {
            let (k, v) = model.at(view.layer() as usize, token as usize);
            for head in 0..HEADS {
                let of = |strides: Strides| {
                    (i as u64 * strides.token + head as u64 * strides.head) as usize / 2
                };
                let (at_k, at_v) = (of(view.k_strides()), of(view.v_strides()));
                assert_eq!(&view.k_as::<u16>().unwrap()[at_k..at_k + DIM], &k[head * DIM..][..DIM]);
                assert_eq!(&view.v_as::<u16>().unwrap()[at_v..at_v + DIM], &v[head * DIM..][..DIM]);
            }
        }
        assert!(rows >= DIM);
    }
    assert_eq!(views.iter().map(|view| view.tokens().end).max(), Some(200));
}

#[test]
fn a_page_goes_to_another_sequence_by_its_own_description() {
    let store = store();
    let model = Model::new(64, 3);
    let seq = model.store(&scope(&store));
    let views: Vec<_> = (0..LAYERS as u32).map(|layer| seq.view(layer, 0).unwrap()).collect();
    let other = store
        .scope(&ScopeOptions {
            model: "other",
            shape: Some(&shape(DType::F16)),
            ..Default::default()
        })
        .unwrap();
    let mut copy = other.seq(&SeqOptions::default()).unwrap();
    copy.append_ids(&model.tokens).unwrap();
    for view in &views {
        copy.append(&[], &view.rows(), (view.k(), view.v())).unwrap();
    }
    model.check(&copy, 64);
    // one page beside memory of the host, in one list
    let list = [views[0].k(), views[0].v()];
    let mut again = other.seq(&SeqOptions { private: true, ..Default::default() }).unwrap();
    again.append(&[], &views[0].rows(), Many(&list)).unwrap();
}

#[test]
fn views_are_numbers_only_of_their_own_type() {
    let store = store();
    let seq = Model::new(64, 4).store(&scope(&store));
    let view = seq.view(1, 5).unwrap();
    assert_eq!(view.k_as::<f16>().unwrap().len() * 2, view.k().len());
    assert_eq!(view.k_as::<u8>().unwrap(), view.k());
    assert_eq!(view.v_as::<[[f16; DIM]; HEADS]>().unwrap().len() * ROW * 2, view.v().len());
    refused(view.k_as::<bf16>(), ErrorKind::Argument, &["F16", "bf16"]);
    refused(view.k_as::<f32>(), ErrorKind::Argument, &["F16", "f32"]);
    refused(view.v_as::<[f16; 1021]>(), ErrorKind::Argument, &["2042"]);
    let frame = seq.view_frame(1, 5).unwrap();
    assert_eq!((frame.k().len(), frame.dtype()), (512, Some(DType::U8)));
    assert!(frame.v().len() >= view.k().len() + view.v().len());
    assert_eq!(store.info().unwrap().view_count, 2);
    refused(seq.view(3, 0), ErrorKind::Range, &["3"]);
    refused(seq.view(0, 64), ErrorKind::Range, &["64"]);
}

#[test]
fn who_goes_on_in_an_open_chunk_leaves_a_view_as_it_was() {
    let store = store();
    let model = Model::new(60, 5);
    let mut seq = scope(&store).seq(&SeqOptions::default()).unwrap();
    model.append_to(&mut seq, 0, 30).unwrap();
    let view = seq.view(0, 0).unwrap();
    let before = (view.k().to_vec(), view.v().to_vec());
    model.append_to(&mut seq, 30, 60).unwrap();
    assert_eq!((view.k(), view.v()), (&before.0[..], &before.1[..]));
    assert_eq!(view.tokens(), 0..30);
    model.check(&seq, 60);
}

#[test]
fn too_many_views_are_busy_and_end_where_they_are_dropped() {
    let store = store_with(StoreOptions { view_max: 2, ..Default::default() });
    let seq = Model::new(64, 6).store(&scope(&store));
    let held = [seq.view(0, 0).unwrap(), seq.view(0, 0).unwrap()];
    assert!(seq.view(0, 0).unwrap_err().is_busy());
    std::thread::spawn(move || drop(held)).join().unwrap();
    seq.view(0, 0).unwrap();
}

#[test]
fn a_region_is_memory_that_comes_back() {
    let store = store();
    let model = Model::new(100, 7);
    let seq = model.store(&scope(&store));
    let mut region = store.region(vec![POISON; 2 * model.k.len()]).unwrap();
    let half = region.len() * 2 / 2;
    seq.gather(&model.rows(0, 100).v_offset(half), &mut region[..]).unwrap();
    model.check_memory(&region[..half / 2], &region[half / 2..], 100);
    assert_eq!(store.info().unwrap().region_count, 1);
    let (boxed, refused) = store.region(Vec::<u16>::new()).unwrap_err();
    assert!(boxed.is_empty() && refused.kind() == ErrorKind::Argument);
    let memory = region.into_inner().map_err(|(_, error)| error).unwrap();
    model.check_memory(&memory[..half / 2], &memory[half / 2..], 100);
    assert_eq!(store.info().unwrap().region_count, 0);
    let boxed = store.region(vec![1f32; 8].into_boxed_slice()).unwrap();
    let mut pool = vec![2u8; 4096];
    // SAFETY: the pool outlives the region, and is used through it alone.
    let region = unsafe { RawMemory::new(pool.as_mut_ptr(), pool.len()) };
    let region = store.region(region).map_err(|(_, error)| error).unwrap();
    let read = std::thread::scope(|threads| threads.spawn(|| region[4095]).join()); // it is shared, though its buffer may not be
    assert_eq!(read.unwrap(), 2);
    drop(region);
    drop(store);
    assert_eq!(boxed[7], 1.0);
}

#[test]
fn limits_are_full_until_something_is_dropped() {
    let store = store_with(StoreOptions { seq_max: 3, queue_max: 1, ..Default::default() });
    let scope = scope(&store);
    let seqs: Vec<_> = (0..3).map(|_| scope.seq(&SeqOptions::default()).unwrap()).collect();
    assert!(scope.seq(&SeqOptions::default()).unwrap_err().is_full());
    drop(seqs);
    scope.seq(&SeqOptions::default()).unwrap();
    let queue = store.queue(&QueueOptions::default()).unwrap();
    assert!(store.queue(&QueueOptions::default()).unwrap_err().is_full());
    drop(queue);
    store.queue(&QueueOptions::default()).unwrap();
}
