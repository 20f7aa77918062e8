//! What a user's first program does, with no more than PKG_CONFIG_PATH: a prompt is stored, found and brought back, blocking and awaited.
use kvc::{DType, Layer, QueueOptions, Rows, ScopeOptions, SeqOptions, Shape, Store, StoreOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open("mem:", &StoreOptions { memory_bytes: 16 << 20, ..Default::default() })?;
    let shape = Shape::new(DType::BF16, [Layer::full(1, 2, 8)]);
    let scope = store.scope(&ScopeOptions { model: "outside", shape: Some(&shape), ..Default::default() })?;
    let prompt: Vec<i32> = (0..64).collect();
    let k: Vec<f32> = (0..64 * 16).map(|i| i as f32 / 4.0).collect();
    let rows = Rows::new(0..1, 0..64);
    scope.seq(&SeqOptions::default())?.append(&prompt, &rows, (&k, &k))?;
    let (seq, found) = scope.match_prefix(&prompt, &SeqOptions::default())?;
    let mut back = vec![0f32; 2 * k.len()];
    seq.gather(&rows.v_offset(k.len() * 4), &mut back)?;
    let queue = store.queue(&QueueOptions::default())?;
    let ((again, _), report) = queue.gather(&seq, &rows, (vec![0f32; k.len()], vec![0f32; k.len()])).await;
    let same = found.tokens == 64 && report?.done == 64 && back[..k.len()] == again[..] && back[..k.len()] == back[k.len()..];
    println!("{}", if same && again[16] == 4.0 { "ok" } else { "wrong" });
    Ok(())
}
