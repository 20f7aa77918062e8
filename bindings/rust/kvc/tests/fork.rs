//! fork(2): what a child inherits is its parent's, and ends without harm.

mod common;

use common::*;
use kvc::*;

/// Runs it in a forked child, which ends by its exit status alone.
fn in_child(what: impl FnOnce() -> bool) {
    // SAFETY: the child calls nothing of the test's other threads, which are not there, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
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
        drop((view, lease, region, queue, seq, scope));
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
