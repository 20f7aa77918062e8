//! An append must be alone on its sequence.
use kvc::{Rows, Seq};

fn main() {}

fn shared(seq: &Seq, k: &[f32]) {
    seq.append(&[1], &Rows::new(0..1, 0..1), k).unwrap();
}

fn threads(seq: &mut Seq) {
    std::thread::scope(|scope| {
        scope.spawn(|| seq.append_ids(&[1]));
        scope.spawn(|| seq.append_ids(&[2]));
    });
}

fn reordered_twice(seq: &mut Seq) {
    kvc::reorder([&mut *seq, &mut *seq], &[0, 1]).unwrap();
}
