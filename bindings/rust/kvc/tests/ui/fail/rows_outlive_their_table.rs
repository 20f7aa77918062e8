//! A description borrows its block table.
use kvc::{Rows, Seq};

fn main() {}

fn dangling(seq: &Seq, k: &mut [f32]) {
    let rows = {
        let table = vec![1, 2, 3];
        Rows::new(0..1, 0..1).blocks(16, &table)
    };
    seq.gather(&rows, k).unwrap();
}
