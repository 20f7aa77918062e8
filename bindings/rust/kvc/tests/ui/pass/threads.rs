//! What the headers allow to any thread.
use kvc::{Lease, Pending, Queue, Region, Result, Scope, Seq, Store, View};

fn any_thread<T: Send + Sync + 'static>() {}

fn one_thread<T: Send + 'static>() {}

fn main() {
    any_thread::<Store>();
    any_thread::<Scope>();
    any_thread::<Seq>();
    any_thread::<View>();
    any_thread::<Lease>();
    any_thread::<Queue>();
    any_thread::<Region<Vec<f32>>>();
    any_thread::<Pending<(Vec<f32>, Result<()>)>>();
    any_thread::<kvc::Error>();
    one_thread::<kvc::RawMemory<f32>>();
}

fn readers_beside_each_other(seq: &Seq) {
    std::thread::scope(|scope| {
        scope.spawn(|| seq.info());
        scope.spawn(|| seq.fork(None));
    });
}
