//! Rows are of numbers.
use kvc::{Rows, Seq};

fn main() {}

fn booleans(seq: &Seq, k: &mut [bool]) {
    seq.gather(&Rows::new(0..1, 0..1), k).unwrap();
}

struct Mine(u16);

unsafe impl kvc::Element for Mine {
    const DTYPE: Option<kvc::DType> = None;
    const NUMBER_BYTES: usize = 2;
}
