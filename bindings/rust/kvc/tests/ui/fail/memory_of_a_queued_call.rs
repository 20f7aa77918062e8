//! Memory that was given to a call is back when the call is.
use kvc::{Queue, Rows, Seq};

fn main() {}

fn used(queue: &Queue, seq: &Seq, k: Vec<f32>) {
    let call = queue.gather(seq, &Rows::new(0..1, 0..1), k);
    println!("{}", k[0]);
    let _ = call.wait();
}

fn borrowed(queue: &Queue, seq: &Seq, k: &mut [f32]) {
    let call = queue.gather(seq, &Rows::new(0..1, 0..1), k);
    let _ = call.wait();
}

fn twice(call: kvc::Pending<kvc::Result<()>>) {
    let _ = call.wait();
    let _ = call.wait();
}
