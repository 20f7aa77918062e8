//! Calls that are awaited in a tokio runtime.
#![cfg(feature = "tokio")]

mod common;

use common::*;
use kvc::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

fn queue(store: &Store) -> Queue {
    store.queue(&QueueOptions { depth: 2000, ..Default::default() }).unwrap()
}

fn poisoned(model: &Model) -> (Vec<u16>, Vec<u16>) {
    (vec![POISON; model.k.len()], vec![POISON; model.v.len()])
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn round_trip(queue: &Queue, scope: &Scope, seed: u64) {
    let model = Model::new(100, seed);
    let (mut seq, _) =
        queue.match_prefix(scope, &model.tokens, &SeqOptions::default()).await.unwrap();
    let (lent, done) = queue
        .append(&mut seq, &model.tokens, &model.rows(0, 100), (model.k.clone(), model.v.clone()))
        .await;
    done.unwrap();
    assert!(lent == (model.k.clone(), model.v.clone()));
    let ((k, v), report) = queue.gather(&seq, &model.rows(0, 100), poisoned(&model)).await;
    assert_eq!(report.unwrap().done, 100);
    model.check_memory(&k, &v, 100);
}

#[tokio::test]
async fn an_await_gives_memory_and_result() {
    let store = store();
    round_trip(&queue(&store), &scope(&store), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_tasks_share_a_queue() {
    let store = store_with(StoreOptions { memory_bytes: 256 << 20, ..Default::default() });
    let (queue, scope) = (queue(&store), scope(&store));
    let tasks: Vec<_> = (0..300)
        .map(|seed| {
            let (queue, scope) = (queue.clone(), scope.clone());
            tokio::spawn(async move { round_trip(&queue, &scope, seed).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(queue.in_flight(), 0);
}

#[tokio::test]
async fn an_await_that_is_dropped_leaves_the_rest_alone() {
    let store =
        store_with(StoreOptions { memory_bytes: 64 << 20, worker_count: 1, ..Default::default() });
    let (queue, scope) = (queue(&store), scope(&store));
    let model = Model::new(2000, 2);
    let seq = model.store(&scope);
    for round in 0..50 {
        let rows = model.rows(0, 2000);
        let slow = queue.gather(&seq, &rows, poisoned(&model));
        let other = queue.gather(&seq, &rows, poisoned(&model));
        tokio::select! {
            biased;
            _ = slow => {}
            () = tokio::time::sleep(Duration::from_micros(round * 10)) => {}
        }
        let ((k, v), report) = other.await;
        report.unwrap();
        model.check_memory(&k, &v, 2000);
    }
    assert!(queue.in_flight() <= 1);
}

#[test]
fn a_queue_goes_on_in_another_runtime() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    for seed in 0..10 {
        let runtime = runtime();
        runtime.block_on(round_trip(&queue, &scope, seed));
        drop(runtime);
    }
    // and without any
    assert!(queue.clear(&scope).wait().is_ok());
    runtime().block_on(round_trip(&queue, &scope, 11));
}

#[test]
fn without_io_in_the_runtime_whoever_drains_serves_an_await() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                queue.drain(Duration::from_millis(10)).unwrap();
            }
        });
        let without = Builder::new_current_thread().build().unwrap();
        let served = std::panic::catch_unwind(|| {
            without.block_on(round_trip(&queue, &scope, 1));
            // the other runtime's driver is none of its business
            runtime().block_on(round_trip(&queue, &scope, 2));
            without.block_on(round_trip(&queue, &scope, 3));
        });
        is_over.store(true, Ordering::Release);
        served.unwrap();
    });
    let (io, scope) = (queue.clone(), scope.clone());
    runtime().block_on(async { io.clear(&scope).await }).unwrap();
}

#[tokio::test]
async fn a_panic_of_the_host_leaves_other_awaits_served() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    let model = Model::new(100, 6);
    let seq = model.store(&scope);
    queue.watch(Some(&scope), EventKind::CLEARED).unwrap();
    let parked = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next_events().await.unwrap() }
    });
    tokio::task::yield_now().await;
    let rows = model.rows(0, 100).v_offset(model.k.len() * 2);
    for _ in 0..40 {
        queue.gather(&seq, &rows, PanicsOnDrop::new(model.k.len() * 2)).detach();
    }
    let limit = Duration::from_secs(10);
    let taken = tokio::time::timeout(limit, async {
        while queue.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    taken.await.expect("nobody takes results");
    scope.clear().unwrap();
    let events = tokio::time::timeout(limit, parked).await.expect("nobody takes events").unwrap();
    assert_eq!(events[0].kind, EventKind::CLEARED);
}

#[test]
fn a_runtime_that_is_dropped_drops_its_awaits_and_no_memory_too_early() {
    let store = store_with(StoreOptions { memory_bytes: 64 << 20, ..Default::default() });
    let (queue, scope) = (queue(&store), scope(&store));
    let model = Model::new(2000, 3);
    let seq = std::sync::Arc::new(model.store(&scope));
    for _ in 0..20 {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        for _ in 0..20 {
            let (queue, seq, rows, memory) =
                (queue.clone(), std::sync::Arc::clone(&seq), model.rows(0, 2000), poisoned(&model));
            runtime.spawn(async move {
                queue.gather(&seq, &rows, memory).await.1.map(|report| report.done)
            });
        }
        runtime.shutdown_background();
    }
    // what was in flight is settled by whoever comes next
    let ((k, v), report) = queue.gather(&seq, &model.rows(0, 2000), poisoned(&model)).wait();
    report.unwrap();
    model.check_memory(&k, &v, 2000);
    drop(queue);
    model.check(&seq, 2000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_panics_takes_only_itself() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    let panics: Vec<_> = (0..20)
        .map(|i| {
            let (queue, scope) = (queue.clone(), scope.clone());
            tokio::spawn(async move {
                let _pending = queue.clear(&scope);
                assert!(i % 2 == 0, "a task of the host");
                round_trip(&queue, &scope, i).await;
            })
        })
        .collect();
    for (i, task) in panics.into_iter().enumerate() {
        let _ = task.await.map_err(|error| assert!(error.is_panic() && i % 2 == 1));
    }
    round_trip(&queue, &scope, 100).await;
}

#[tokio::test]
async fn queues_come_and_go_in_one_runtime() {
    let store = store();
    let scope = scope(&store);
    for seed in 0..100 {
        let queue = queue(&store);
        round_trip(&queue, &scope, seed).await;
        let dropped = queue.clear(&scope);
        drop((queue, dropped));
    }
}

#[tokio::test]
async fn a_host_driven_store_works_in_its_awaits() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let (queue, scope) = (queue(&store), scope(&store));
    for seed in 0..5 {
        round_trip(&queue, &scope, seed).await;
    }
    tokio::join!(round_trip(&queue, &scope, 6), round_trip(&queue, &scope, 7));
}

#[tokio::test]
async fn events_wait_beside_results() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    queue.watch(Some(&scope), EventKind::ALL).unwrap();
    for seed in 0..20 {
        round_trip(&queue, &scope, seed).await; // nobody takes the events, and results come all the same
    }
    let events = queue.next_events().await.unwrap();
    assert!(events.iter().all(|event| event.kind == EventKind::STORED && event.tokens.len() == 64));
    assert_eq!(events.len(), 20);
    let later = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next_events().await.unwrap() }
    });
    tokio::task::yield_now().await;
    scope.clear().unwrap();
    assert_eq!(later.await.unwrap()[0].kind, EventKind::CLEARED);
}

#[tokio::test]
async fn errors_come_as_of_calls_that_block() {
    let store = store();
    let (queue, scope) = (queue(&store), scope(&store));
    let model = Model::new(64, 5);
    let mut seq = model.store(&scope);
    let (memory, result) = queue
        .append(&mut seq, &model.tokens, &model.rows(0, 64), (model.k.clone(), model.v.clone()))
        .await;
    refused(result, ErrorKind::Range, &["64"]);
    assert!(memory.0 == model.k);
    let (_, result) = queue.gather(&seq, &model.rows(0, 65), poisoned(&model)).await;
    assert!(result.is_err());
    refused(
        queue.restore(&scope, "/nowhere/at/all", &SeqOptions::default()).await,
        ErrorKind::NotFound,
        &["nowhere"],
    );
    let failed = queue.save(&seq, "/nowhere/at/all").await.unwrap_err();
    assert_eq!((failed.kind(), failed.os_error()), (ErrorKind::Io, Some(2)));
}
