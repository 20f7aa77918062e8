//! fork(2): what a child inherits is its parent's, and ends without harm.

mod common;

use common::*;
use kvc::*;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Runs it in a forked child, which ends by its exit status alone.
fn in_child(what: impl FnOnce() -> bool) {
    // SAFETY: the child calls nothing of the test's other threads, which are not there, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: a child that goes on for ever ends here.
        unsafe { libc::alarm(20) };
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).unwrap_or(false);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child ended with {status:#x}"
    );
}

fn is_forked<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::Forked)
}

#[test]
fn inherited_handles_say_so_and_new_stores_work() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 1);
    let mut seq = model.store(&scope);
    let view = seq.view(0, 0).unwrap();
    let lease = seq.lease(.., None).unwrap();
    let queue = store.queue(&QueueOptions::default()).unwrap();
    let region = store.region(vec![0u8; 4096]).unwrap();
    let held =
        store.queue(&QueueOptions::default()).unwrap().with(Call { more: true, ..Call::default() });
    let put = held.put(&scope, vec![Item::new("a", vec![1u8])], &PutOptions::default());
    let pending = queue.gather(
        &seq,
        &model.rows(0, 100),
        (vec![POISON; model.k.len()], vec![POISON; model.v.len()]),
    );
    // All of it is moved into the child's copy of memory, and dropped there.
    in_child(|| {
        let mut good = is_forked(store.info()) && is_forked(scope.info()) && is_forked(seq.info());
        good &= is_forked(seq.append_ids(&[1]))
            && is_forked(seq.view(0, 0))
            && is_forked(lease.renew(None));
        good &= is_forked(queue.drain(std::time::Duration::ZERO))
            && is_forked(queue.fd().map(drop))
            && is_forked(scope.put("a", b"b"));
        good &= is_forked(queue.clear(&scope).wait());
        let ((k, _), result) = pending.wait(); // what was in flight ends, and its memory comes back
        good &= is_forked(result) && k.len() == model.k.len();
        let (items, result) = put.wait();
        good &= is_forked(result) && items[0].outcome.error() == Some(ErrorKind::Forked);
        drop((view, lease, region, queue, held, seq, scope));
        good &= is_forked(store.close());
        let own = common::store();
        let own_scope = common::scope(&own);
        model.check(&model.store(&own_scope), 100);
        let own_queue = own.queue(&QueueOptions::default()).unwrap();
        good & own_queue.clear(&own_scope).wait().is_ok()
    });
}

#[test]
fn a_parent_goes_on_while_children_come_and_go() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 2);
    let mut seq = model.store(&scope);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    for _ in 0..5 {
        in_child(|| is_forked(store.info()));
        model.check(&seq, 100);
        let call = queue.gather(
            &seq,
            &model.rows(0, 100),
            (vec![POISON; model.k.len()], vec![POISON; model.v.len()]),
        );
        let ((k, v), report) = call.wait();
        report.unwrap();
        model.check_memory(&k, &v, 100);
    }
    seq.truncate(0).unwrap();
    assert_eq!(store.info().unwrap().seq_count, 1);
}

#[test]
fn a_panic_of_the_host_loses_no_call_of_a_child() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let scope = scope(&store);
    let model = Model::new(100, 3);
    let seq = model.store(&scope);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    let rows = model.rows(0, 100).v_offset(model.k.len() * 2);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            queue.gather(&seq, &rows, PanicsOnDrop::new(model.k.len() * 2)).detach();
            queue.clear(&scope)
        })
        .collect();
    in_child(|| {
        let drained = catch_unwind(|| queue.drain(Duration::ZERO));
        drained.is_err() && calls.into_iter().all(|call| call.is_done() && is_forked(call.wait()))
    });
    std::mem::forget(queue); // what is in flight would panic here
}

#[test]
fn calls_begun_in_a_child_while_others_drain_end_once() {
    let store = store();
    let scope = scope(&store);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    in_child(|| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Acquire) {
                        assert!(is_forked(queue.drain(Duration::ZERO)));
                    }
                });
            }
            let good = catch_unwind(|| (0..20_000).all(|_| is_forked(queue.clear(&scope).wait())));
            is_over.store(true, Ordering::Release);
            good.unwrap_or(false)
        })
    });
}

/// Memory whose drop waits until it is told to go on.
struct Waits(Vec<u16>, Sender<()>, Receiver<()>);

// SAFETY: it is a vector.
unsafe impl Buffer for Waits {
    type Element = u16;

    fn as_mut_ptr(&mut self) -> *mut u16 {
        self.0.as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.1.send(());
        let _ = self.2.recv();
    }
}

/// A child of a process in which another thread has taken the results of two calls, and is at the first of them.
fn child_of_one_who_settles(take: impl Fn(&Queue, Pending<Result<Report>>) + Send + Sync) {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let scope = scope(&store);
    let model = Model::new(100, 4);
    let seq = model.store(&scope);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    let ((dropping, is_dropping), (go_on, goes_on)) = (channel(), channel());
    let memory = Waits(vec![POISON; model.k.len() * 2], dropping, goes_on);
    let rows = model.rows(0, 100).v_offset(model.k.len() * 2);
    queue.gather(&seq, &rows, memory).detach();
    let (taken, lost) = (queue.clear(&scope), queue.clear(&scope));
    std::thread::scope(|threads| {
        let go_on = go_on; // of a test that fails it is dropped, which is heard too
        threads.spawn(|| take(&queue, taken));
        is_dropping.recv().unwrap();
        in_child(|| {
            let ended = catch_unwind(std::panic::AssertUnwindSafe(|| lost.wait()));
            let later = catch_unwind(|| queue.clear(&scope).wait());
            ended.is_err() && later.is_ok_and(is_forked)
        });
        go_on.send(()).unwrap();
    });
}

#[test]
fn a_wait_in_a_child_ends_for_a_call_that_the_parent_was_ending() {
    child_of_one_who_settles(|queue, taken| {
        while queue.in_flight() > 0 {
            queue.drain(Duration::ZERO).unwrap();
        }
        taken.wait().unwrap();
    });
    // and where that thread had been waiting
    child_of_one_who_settles(|_, taken| drop(taken.wait()));
}
