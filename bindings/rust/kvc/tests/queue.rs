//! Calls that do not block, without a runtime.

mod common;

use common::*;
use kvc::*;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn queue(store: &Store) -> Queue {
    store.queue(&QueueOptions { depth: 2000, ..Default::default() }).unwrap()
}

fn poisoned(model: &Model) -> (Vec<u16>, Vec<u16>) {
    (vec![POISON; model.k.len()], vec![POISON; model.v.len()])
}

#[test]
fn hundreds_in_flight_come_back_with_their_own_memory() {
    let store = store_with(StoreOptions { memory_bytes: 256 << 20, ..Default::default() });
    let scope = scope(&store);
    let queue = queue(&store);
    let models: Vec<_> = (0..300).map(|seed| Model::new(100, seed)).collect();
    let mut seqs: Vec<_> =
        models.iter().map(|_| scope.seq(&SeqOptions::default()).unwrap()).collect();
    let appended: Vec<_> = models
        .iter()
        .zip(&mut seqs)
        .map(|(model, seq)| {
            queue.append(
                seq,
                &model.tokens,
                &model.rows(0, 100),
                (model.k.clone(), model.v.clone()),
            )
        })
        .collect();
    // each runs behind the append of its own sequence
    let gathered: Vec<_> = models
        .iter()
        .zip(&seqs)
        .map(|(model, seq)| queue.gather(seq, &model.rows(0, 100), poisoned(model)))
        .collect();
    assert!(queue.in_flight() > 0);
    for ((call, model), lent) in gathered.into_iter().zip(&models).zip(appended) {
        let ((k, v), report) = call.wait();
        assert_eq!(report.unwrap().done, 100);
        model.check_memory(&k, &v, 100);
        let ((k, v), done) = lent.wait();
        done.unwrap();
        assert!(k == model.k && v == model.v, "what was lent comes back as it was");
    }
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn every_call_has_its_queued_form() {
    let store = store();
    let scope = scope(&store);
    let queue = queue(&store);
    let model = Model::new(200, 1);
    let folder = std::env::temp_dir().join(format!("kvc-rust-queue-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut seq, found) =
        queue.match_prefix(&scope, &model.tokens, &SeqOptions::default()).wait().unwrap();
    assert_eq!((found.tokens, found.stop), (0, Some(Stop::Absent)));
    queue
        .append(&mut seq, &model.tokens, &model.rows(0, 200), (model.k.clone(), model.v.clone()))
        .wait()
        .1
        .unwrap();
    assert_eq!(queue.prefetch(&seq, &model.rows(0, 200), Tier::Host).wait().unwrap().done, 200);
    let lease = queue.lease(&seq, .., None).wait().unwrap();
    lease.renew(Some(FOREVER)).unwrap();
    queue.publish(&mut seq, "name", None).wait().unwrap();
    model.check(&queue.attach(&scope, "name", &SeqOptions::default()).wait().unwrap(), 200);
    queue.save(&seq, folder.join("file")).wait().unwrap();
    model.check(
        &queue.restore(&scope, folder.join("file"), &SeqOptions::default()).wait().unwrap(),
        200,
    );
    assert!(queue.verify(&store).wait().unwrap().pages_read > 0);
    let items = vec![
        Item::new("a", vec![1u8; 100]),
        Item {
            key: b"b".to_vec(),
            parts: vec![vec![2u8; 10], vec![3u8; 20]],
            ..Default::default()
        },
    ];
    let (items, report) = queue.put(&scope, items, &PutOptions::default()).wait();
    assert_eq!((report.unwrap().bytes, items[0].outcome.is_ok()), (130, true));
    let items = vec![
        Item::new("a", vec![0u16; 50]),
        Item::new("b", vec![0u16; 20]),
        Item::new("none", vec![]),
    ];
    let (items, report) = queue.get(&scope, items, false).wait();
    assert!(report.unwrap_err().is_not_found());
    assert_eq!(
        items.iter().map(|item| item.outcome.size()).collect::<Vec<_>>(),
        [Ok(100), Ok(30), Err(ErrorKind::NotFound)]
    );
    assert_eq!(
        (&items[0].parts[0][..], &items[1].parts[0][..15]),
        (&[0x0101; 50][..], &[[0x0202; 5].as_slice(), &[0x0303; 10]].concat()[..])
    );
    let found = queue
        .exists(&scope, &["a", "none"], ExistsOptions { hold: true, ..Default::default() })
        .wait()
        .unwrap();
    assert_eq!((found.leading(), found.lease.is_some()), (1, true));
    let listed = queue.list(&scope, b"a", 10).wait().unwrap();
    assert_eq!(
        listed.iter().map(|entry| (&entry.key[..], entry.value_size)).collect::<Vec<_>>(),
        [(&b"b"[..], 30)]
    );
    let deleted = queue.delete(&scope, &["a", "none"]).wait().unwrap();
    assert_eq!(deleted.iter().map(Outcome::is_ok).collect::<Vec<_>>(), [true, false]);
    assert!(queue.clear(&scope).wait().unwrap().done > 0);
    refused(
        queue.restore(&scope, folder.join("none"), &SeqOptions::default()).wait(),
        ErrorKind::NotFound,
        &["none"],
    );
    refused(queue.attach(&scope, "other", &SeqOptions::default()).wait(), ErrorKind::NotFound, &[]);
    refused(queue.save(&seq, "a\0b").wait(), ErrorKind::Argument, &["path"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn one_drain_serves_all_and_memory_may_be_of_any_kind() {
    let store = store();
    let queue = queue(&store);
    let model = Model::new(100, 2);
    let seq = model.store(&scope(&store));
    let boxed = queue.gather(
        &seq,
        &model.rows(0, 100),
        (vec![POISON; model.k.len()].into_boxed_slice(), vec![POISON; model.v.len()]),
    );
    let pool = queue.gather(
        &seq,
        &model.rows(0, 100).v_offset(model.k.len() * 2),
        vec![POISON; model.k.len() * 2],
    );
    let many = queue.gather(
        &seq,
        &model.rows(0, 100),
        Many(vec![vec![POISON; model.k.len()], vec![POISON; model.k.len()]]),
    );
    let region = store.region(vec![POISON; model.k.len() * 2]).unwrap();
    let region = queue.gather(&seq, &model.rows(0, 100).v_offset(model.k.len() * 2), region);
    while queue.in_flight() > 0 {
        queue.drain(Duration::from_secs(10)).unwrap();
    }
    assert!(boxed.is_done() && pool.is_done() && many.is_done() && region.is_done());
    let (k, v) = boxed.wait().0;
    model.check_memory(&k, &v, 100);
    let both = pool.wait().0;
    model.check_memory(&both[..model.k.len()], &both[model.k.len()..], 100);
    let Many(sides) = many.wait().0;
    model.check_memory(&sides[0], &sides[1], 100);
    let region = region.wait().0;
    model.check_memory(&region[..model.k.len()], &region[model.k.len()..], 100);
}

/// Memory that tells when it is dropped, and keeps being looked at.
struct Watched {
    memory: Vec<u16>,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: it is a vector.
unsafe impl Buffer for Watched {
    type Element = u16;

    fn as_mut_ptr(&mut self) -> *mut u16 {
        self.memory.as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_call_that_is_dropped_or_forgotten_keeps_its_memory_until_its_result() {
    // The host does the work, so that what has not begun stays so.
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let queue = queue(&store);
    let model = Model::new(100, 3);
    let seq = model.store(&scope(&store));
    let dropped = Arc::new(AtomicUsize::new(0));
    let watched =
        || Watched { memory: vec![POISON; model.k.len() * 2], dropped: Arc::clone(&dropped) };
    let rows = model.rows(0, 100).v_offset(model.k.len() * 2);
    drop(queue.gather(&seq, &rows, watched()));
    std::mem::forget(queue.gather(&seq, &rows, watched()));
    queue.gather(&seq, &rows, watched()).detach();
    let kept = queue.gather(&seq, &rows, watched());
    assert_eq!((dropped.load(Ordering::SeqCst), queue.in_flight()), (0, 4));
    assert_eq!(queue.drain(Duration::ZERO).unwrap(), 4);
    // what was forgotten is leaked, as anything is
    assert_eq!((dropped.load(Ordering::SeqCst), queue.in_flight()), (2, 0));
    let (memory, report) = kept.wait();
    report.unwrap();
    model.check_memory(&memory.memory[..model.k.len()], &memory.memory[model.k.len()..], 100);
}

#[test]
fn a_queue_that_is_dropped_waits_until_no_memory_is_in_use() {
    let dropped = Arc::new(AtomicUsize::new(0));
    for round in 0..20 {
        let store = store();
        let queue = queue(&store);
        let model = Model::new(200, round);
        let seq = model.store(&scope(&store));
        for _ in 0..50 {
            let memory =
                Watched { memory: vec![POISON; model.k.len() * 2], dropped: Arc::clone(&dropped) };
            queue.gather(&seq, &model.rows(0, 200).v_offset(model.k.len() * 2), memory).detach();
        }
        drop(queue);
        assert_eq!(dropped.swap(0, Ordering::SeqCst), 50);
    }
}

#[test]
fn what_is_cancelled_before_it_begins_says_so() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let queue = queue(&store);
    let model = Model::new(100, 4);
    let seq = model.store(&scope(&store));
    let call = queue.gather(&seq, &model.rows(0, 100), poisoned(&model));
    let other = queue.gather(&seq, &model.rows(0, 100), poisoned(&model));
    assert!(call.cancel());
    let ((k, v), result) = call.wait();
    assert!(result.unwrap_err().is_cancelled());
    assert!(k.iter().chain(&v).all(|&bits| bits == POISON));
    assert!(other.wait().1.is_ok());
    let done = queue.clear(&scope(&store));
    queue.drain(Duration::ZERO).unwrap();
    assert!(done.is_done() && !done.cancel());
}

#[test]
fn a_call_that_is_dropped_is_asked_to_stop_and_a_detached_one_is_not() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let (queue, scope) = (queue(&store), scope(&store));
    let model = Model::new(100, 8);
    let mut seqs = [(); 2].map(|()| scope.seq(&SeqOptions::default()).unwrap());
    let [dropped, detached] = seqs.each_mut().map(|seq| {
        let memory = (model.k.clone(), model.v.clone());
        queue.append(seq, &model.tokens, &model.rows(0, 100), memory)
    });
    drop(dropped);
    detached.detach();
    while queue.in_flight() > 0 {
        queue.drain(Duration::from_secs(10)).unwrap();
    }
    assert_eq!(seqs.each_ref().map(|seq| seq.info().unwrap().tokens), [0, 100]);
    model.check(&seqs[1], 100);
}

#[test]
fn a_full_queue_gives_the_memory_back_at_once() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let queue = store.queue(&QueueOptions { depth: 2, ..Default::default() }).unwrap();
    let model = Model::new(100, 5);
    let seq = model.store(&scope(&store));
    let gather = || queue.gather(&seq, &model.rows(0, 100), poisoned(&model));
    let taken = [gather(), gather()];
    let third = gather();
    assert!(third.is_done());
    let ((k, _), result) = third.wait();
    assert!(result.unwrap_err().is_busy() && k.len() == model.k.len());
    let [first, second] = taken;
    assert!(first.wait().1.is_ok() && second.wait().1.is_ok() && gather().wait().1.is_ok());
    // and so does a description that does not fit
    let ((k, _), result) =
        queue.gather(&seq, &model.rows(0, 100), (vec![0u16; 5], vec![0u16; 5])).wait();
    assert_eq!((result.unwrap_err().kind(), k.len()), (ErrorKind::Argument, 5));
}

#[test]
fn calls_held_back_start_together() {
    let store = store();
    let queue = queue(&store).with(Call { more: true, timeout: Some(FOREVER), ..Call::default() });
    let model = Model::new(100, 6);
    let seq = model.store(&scope(&store));
    let gather = || queue.gather(&seq, &model.rows(0, 100), poisoned(&model));
    let held: Vec<_> = (0..20).map(|_| gather()).collect();
    queue.submit().unwrap();
    for call in held {
        call.wait().1.unwrap();
    }
    gather().wait().1.unwrap(); // waiting starts it
    let mut seen = 0;
    let held: Vec<_> = (0..20).map(|_| gather()).collect();
    while seen < 20 {
        seen += queue.drain(Duration::from_secs(10)).unwrap();
    }
    assert!(held.iter().all(Pending::is_done));
}

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_call_is_a_future_of_any_executor() {
    let store = store();
    let queue = queue(&store);
    let model = Model::new(100, 7);
    let seq = model.store(&scope(&store));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut call = pin!(queue.with(Call { more: true, ..Call::default() }).gather(
        &seq,
        &model.rows(0, 100),
        poisoned(&model)
    ));
    let mut context = Context::from_waker(&waker);
    let early = call.as_mut().poll(&mut context);
    assert!(early.is_pending(), "nobody drained");
    while woken.0.load(Ordering::SeqCst) == 0 {
        queue.drain(Duration::from_secs(10)).unwrap();
    }
    let Poll::Ready(((k, v), _)) = call.as_mut().poll(&mut context) else {
        panic!("it was woken too early")
    };
    model.check_memory(&k, &v, 100);
}

#[test]
fn a_panic_of_the_host_loses_no_result() {
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the host");
        }
    }

    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let queue = queue(&store);
    let scope = scope(&store);
    let mut calls: Vec<_> = (0..10)
        .map(|_| Box::pin(queue.with(Call { more: true, ..Call::default() }).clear(&scope)))
        .collect();
    let other = store_with(StoreOptions::default()); // not host-driven: a poll does none of the work
    let busy = other.queue(&QueueOptions::default()).unwrap();
    let busy_scope = common::scope(&other);
    let mut panicking: Vec<_> = (0..10).map(|_| Box::pin(busy.clear(&busy_scope))).collect();
    let waker = Waker::from(Arc::new(Panics));
    let polled: Vec<_> = panicking
        .iter_mut()
        .map(|call| call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        .collect();
    let mut panics = 0;
    while busy.in_flight() > 0 {
        let drained = std::panic::catch_unwind(|| busy.drain(Duration::from_secs(10)));
        panics += usize::from(drained.is_err());
    }
    assert!(panics > 0 || polled.iter().all(|&ready| ready));
    assert!(panicking.iter().zip(&polled).all(|(call, &ready)| ready || call.is_done()));
    for call in &mut calls {
        assert!(
            call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready(),
            "of a host-driven store a poll does the work"
        );
    }
}

#[test]
fn threads_that_wait_take_each_other_s_results() {
    let store = store();
    let queue = queue(&store);
    let scope = scope(&store);
    std::thread::scope(|threads| {
        for thread in 0..16 {
            let (queue, scope) = (queue.clone(), scope.clone());
            threads.spawn(move || {
                for round in 0..20 {
                    let model = Model::new(70, thread * 1000 + round);
                    let mut seq = queue
                        .match_prefix(&scope, &model.tokens, &SeqOptions::default())
                        .wait()
                        .unwrap()
                        .0;
                    queue
                        .append(
                            &mut seq,
                            &model.tokens,
                            &model.rows(0, 70),
                            (model.k.clone(), model.v.clone()),
                        )
                        .wait()
                        .1
                        .unwrap();
                    let ((k, v), report) =
                        queue.gather(&seq, &model.rows(0, 70), poisoned(&model)).wait();
                    report.unwrap();
                    model.check_memory(&k, &v, 70);
                }
            });
        }
    });
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn a_host_driven_store_works_when_the_host_does() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let queue = queue(&store);
    let call = queue.clear(&scope(&store));
    assert!(!call.is_done());
    while store.step(Duration::from_millis(1)).unwrap() {}
    queue.drain(Duration::ZERO).unwrap();
    assert!(call.is_done());
    refused(common::store().step(Duration::ZERO), ErrorKind::Misuse, &[]);
}
