//! What a host does a thousand times a second allocates nothing on this side.

mod common;

use common::*;
use kvc::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it is the system's, which it counts the calls of.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn gets_and_gathers_and_appends_allocate_nothing() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 1);
    let mut seq = scope.seq(&SeqOptions::default()).unwrap();
    let (mut k, mut v, mut value) = (model.k.clone(), model.v.clone(), [0u8; 4096]);
    scope.put("key", &value).unwrap();
    model.append_to(&mut seq, 0, 50).unwrap();
    let (rows, table) = (model.rows(0, 50), [0, 1, 2, 3]);
    let before = COUNT.get();
    for token in 50..100 {
        model.append_to(&mut seq, token, token + 1).unwrap();
        seq.gather(&rows, (&mut k, &mut v)).unwrap();
        seq.gather(&Rows::new(0..1, 0..50).blocks(16, &table).without_v(), &mut k).unwrap();
        assert_eq!(scope.get_into("key", &mut value).unwrap(), Some(4096));
        seq.info().unwrap();
    }
    drop(seq.view(0, 0).unwrap());
    assert_eq!(COUNT.get() - before, 0);
}
