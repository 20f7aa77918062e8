//! What a gather writes nobody else looks at.
use kvc::{Rows, Seq};

fn main() {}

fn held(seq: &Seq, mut k: Vec<f32>) {
    let first = &k[0];
    seq.gather(&Rows::new(0..1, 0..1), &mut k).unwrap();
    println!("{first}");
}

fn both_sides(seq: &Seq, mut pool: Vec<f32>) {
    seq.gather(&Rows::new(0..1, 0..1), (&mut pool, &mut pool)).unwrap();
}

fn read_only(seq: &Seq, k: &Vec<f32>) {
    seq.gather(&Rows::new(0..1, 0..1), k).unwrap();
}
