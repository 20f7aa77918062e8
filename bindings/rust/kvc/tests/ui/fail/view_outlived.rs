//! The bytes of a view go with it.
use kvc::{Get, Scope, View};

fn main() {}

fn dropped(view: View) -> f32 {
    let keys = view.k_as::<f32>().unwrap();
    drop(view);
    keys[0]
}

fn returned(seq: &kvc::Seq) -> &'static [u8] {
    seq.view(0, 0).unwrap().k()
}

fn written(view: &View) {
    view.k()[0] = 1;
}

fn batch(scope: &Scope) {
    let mut items = Vec::new();
    {
        let mut value = [0u8; 10];
        items.push(Get::new("key", &mut value));
    }
    scope.get_batch(&mut items).unwrap();
}
