//! Threads by the hundred.

mod common;

use common::*;
use kvc::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn hundreds_of_threads_read_one_sequence() {
    let store = store();
    let model = Model::new(200, 1);
    let seq = model.store(&scope(&store));
    let barrier = Barrier::new(200);
    std::thread::scope(|threads| {
        for thread in 0..200 {
            let (seq, model, barrier) = (&seq, &model, &barrier);
            threads.spawn(move || {
                barrier.wait();
                for round in 0..5 {
                    model.check(seq, 200);
                    let fork = seq.fork(Some((thread + round) % 201)).unwrap();
                    let view = seq.view(thread as u32 % 3, 70).unwrap();
                    drop(fork);
                    assert_eq!(view.tokens(), 64..128);
                    assert_eq!(seq.info().unwrap().tokens, 200);
                }
            });
        }
    });
    let info = store.info().unwrap();
    assert_eq!((info.seq_count, info.view_count), (1, 0));
}

#[test]
fn hundreds_of_threads_write_the_same_prompts() {
    let store = store_with(StoreOptions { memory_bytes: 128 << 20, ..Default::default() });
    let scope = scope(&store);
    let models: Vec<_> = (0..10).map(|seed| Model::new(130, seed)).collect();
    std::thread::scope(|threads| {
        for thread in 0..200 {
            let (scope, models) = (scope.clone(), &models);
            threads.spawn(move || {
                let model = &models[thread % models.len()];
                let (mut seq, found) =
                    scope.match_prefix(&model.tokens, &SeqOptions::default()).unwrap();
                model.append_to(&mut seq, found.tokens as usize, 130).unwrap();
                model.check(&seq, 130);
            });
        }
    });
    assert_eq!(store.info().unwrap().chunk_count, 20, "the first commit of a chunk wins");
}

#[test]
fn of_many_that_put_other_bytes_under_one_key_one_wins() {
    let store = store();
    let scope = store.scope(&ScopeOptions { model: "m", ..Default::default() }).unwrap();
    let (won, barrier) = (AtomicUsize::new(0), Barrier::new(100));
    std::thread::scope(|threads| {
        for thread in 0..100u8 {
            let (scope, won, barrier) = (&scope, &won, &barrier);
            threads.spawn(move || {
                barrier.wait();
                match scope.put("key", &[thread; 5000]) {
                    Ok(()) => drop(won.fetch_add(1, Ordering::SeqCst)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Exists),
                }
                let read = scope.get("key").unwrap().unwrap();
                assert!(read.len() == 5000 && read.iter().all(|&byte| byte == read[0]));
            });
        }
    });
    assert_eq!(won.into_inner(), 1);
}

#[test]
fn stores_are_opened_and_closed_by_many_threads_at_once() {
    std::thread::scope(|threads| {
        for thread in 0..32 {
            threads.spawn(move || {
                let store =
                    store_with(StoreOptions { memory_bytes: 2 << 20, ..Default::default() });
                let model = Model::new(70, thread);
                let seq = model.store(&scope(&store));
                let other = store.clone();
                let handed = std::thread::spawn(move || {
                    model.check(&seq, 70);
                    (model, seq)
                });
                drop(other);
                store.close().map_or_else(|busy| assert!(busy.is_busy()), drop);
                let (model, seq) = handed.join().unwrap();
                model.check(&seq, 70);
            });
        }
    });
}
