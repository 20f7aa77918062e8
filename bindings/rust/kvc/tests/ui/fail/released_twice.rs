//! Nothing is used after its release.
use kvc::{Region, Store};

fn main() {}

fn closed(store: Store) {
    store.close().unwrap();
    store.info().unwrap();
}

fn unregistered(region: Region<Vec<f32>>) -> f32 {
    let data = &region[..];
    drop(region);
    data[0]
}

fn grown(region: &mut Region<Vec<f32>>) {
    region.push(1.0);
}
