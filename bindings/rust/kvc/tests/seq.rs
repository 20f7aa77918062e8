//! Sequences: match, fork, truncate, reorder, compact, identify, hand over, save.
#![allow(non_snake_case, reason = "the ids of field reports are written so")]

mod common;

use common::*;
use kvc::*;
use std::time::Duration;

fn options() -> SeqOptions<'static> {
    SeqOptions::default()
}

#[test]
fn a_match_finds_whole_chunks_and_says_why_it_ends() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(200, 1);
    drop(model.store(&scope));
    let (seq, found) = scope.match_prefix(&model.tokens, &options()).unwrap();
    assert_eq!((found.tokens, found.stop), (192, Some(Stop::End)));
    assert_eq!(seq.info().unwrap().tokens, 192);
    model.check(&seq, 192);
    let mut other = model.tokens.clone();
    other[100] ^= 1;
    let peeked = scope.peek(&other, &options()).unwrap();
    assert_eq!((peeked.tokens, peeked.stop), (64, Some(Stop::Absent)));
    let some = SeqOptions { tokens_max: Some(191), ..options() };
    assert_eq!(scope.peek(&model.tokens, &some).unwrap().tokens, 128);
    let none = SeqOptions { tokens_max: Some(0), ..options() };
    assert_eq!(scope.peek(&model.tokens, &none).unwrap().tokens, 0);
    assert_eq!(scope.match_prefix(&[], &options()).unwrap().1.tokens, 0);
    let before = store.metrics().unwrap().match_calls;
    scope.peek(&model.tokens, &options()).unwrap();
    assert_eq!(store.metrics().unwrap().match_calls, before, "a peek counts no use");
}

#[test]
fn scopes_that_differ_in_one_name_share_nothing() {
    let store = store();
    let shape = shape(DType::F16);
    let model = Model::new(64, 2);
    let whole = ScopeOptions {
        tenant: "t",
        model: "m",
        revision: "r",
        adapter: "a",
        salt: b"s",
        shape: Some(&shape),
        ..Default::default()
    };
    let scope = store.scope(&whole).unwrap();
    drop(model.store(&scope));
    let others = [
        ScopeOptions { tenant: "T", ..whole },
        ScopeOptions { model: "M", ..whole },
        ScopeOptions { revision: "R", ..whole },
        ScopeOptions { adapter: "", ..whole },
        ScopeOptions { salt: b"S", ..whole },
    ];
    for other in others {
        let other = store.scope(&other).unwrap();
        assert_eq!(other.peek(&model.tokens, &options()).unwrap().tokens, 0);
        assert_ne!(other.info().unwrap().fingerprint, scope.info().unwrap().fingerprint);
    }
    assert_eq!(store.scope(&whole).unwrap().peek(&model.tokens, &options()).unwrap().tokens, 64);
}

#[test]
fn B124_descriptions_are_read_and_never_changed() {
    let shape = shape(DType::F16);
    let (before, stores) = (shape.clone(), [store(), store()]);
    std::thread::scope(|threads| {
        for (i, store) in stores.iter().enumerate() {
            let shape = &shape;
            threads.spawn(move || {
                let model = if i == 0 { "one" } else { "other" };
                let options = ScopeOptions { model, shape: Some(shape), ..Default::default() };
                for seed in 0..20 {
                    let scope = store.scope(&options).unwrap();
                    Model::new(70, seed).check(&Model::new(70, seed).store(&scope), 70);
                }
            });
        }
    });
    assert_eq!(shape, before);
}

#[test]
fn rows_may_come_layer_by_layer_and_ids_ahead_of_them() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(130, 3);
    let mut seq = scope.seq(&options()).unwrap();
    seq.append_ids(&model.tokens).unwrap();
    assert_eq!(seq.info().unwrap().tokens_given, 130);
    for layer in 0..LAYERS {
        let at = layer * 130 * ROW;
        let rows = Rows::new(layer as u32..layer as u32 + 1, 0..130);
        seq.append(&[], &rows, (&model.k[at..at + 130 * ROW], &model.v[at..at + 130 * ROW]))
            .unwrap();
        assert_eq!(seq.info().unwrap().tokens, if layer + 1 < LAYERS { 0 } else { 130 });
    }
    model.check(&seq, 130);
    refused(seq.append(&[], &rows(130, 0, 130), (&model.k, &model.v)), ErrorKind::Range, &["130"]);
}

#[test]
fn forks_and_truncated_sequences_go_their_own_ways() {
    let store = store();
    let scope = scope(&store);
    let (model, mut other) = (Model::new(200, 4), Model::new(200, 5));
    let mut seq = model.store(&scope);
    let mut fork = seq.fork(Some(100)).unwrap();
    // the other text begins as this one does
    for layer in 0..LAYERS {
        let (at, end) = (layer * 200 * ROW, (layer * 200 + 100) * ROW);
        other.k[at..end].copy_from_slice(&model.k[at..end]);
        other.v[at..end].copy_from_slice(&model.v[at..end]);
    }
    other.append_to(&mut fork, 100, 200).unwrap();
    other.check(&fork, 200);
    model.check(&seq, 200);
    seq.truncate(70).unwrap();
    model.check(&seq, 70);
    assert_eq!(fork.info().unwrap().tokens, 200);
    model.append_to(&mut seq, 70, 200).unwrap();
    model.check(&seq, 200);
    let whole = seq.fork(None).unwrap();
    drop(seq);
    model.check(&whole, 200);
    refused(whole.fork(Some(201)), ErrorKind::Range, &["201", "200"]);
}

#[test]
fn beams_become_what_their_sources_were() {
    let store = store();
    let scope = scope(&store);
    let models: Vec<_> = (0..4).map(|i| Model::new(90, 10 + i)).collect();
    let mut seqs: Vec<_> = models.iter().map(|model| model.store(&scope)).collect();
    reorder(&mut seqs, &[2, 2, 0, 1]).unwrap();
    for (seq, of) in seqs.iter().zip([2, 2, 0, 1]) {
        models[of].check(seq, 90);
    }
    let (first, last) = seqs.split_at_mut(2);
    reorder([&mut first[0], &mut last[1]], &[1, 0]).unwrap();
    models[1].check(&seqs[0], 90);
    models[2].check(&seqs[3], 90);
    refused(reorder(&mut seqs, &[0]), ErrorKind::Argument, &["1", "4"]);
    refused(reorder(&mut seqs, &[0, 1, 2, 4]), ErrorKind::Range, &["4"]);
    refused(reorder([], &[]), ErrorKind::Argument, &[]);
}

#[test]
fn a_compacted_sequence_has_the_listed_positions() {
    let store = store();
    let model = Model::new(200, 20);
    let mut seq = model.store(&scope(&store));
    let kept: Vec<u64> = (0..70).chain((71..200).step_by(3)).collect();
    seq.compact(&kept).unwrap();
    let count = kept.len();
    assert_eq!(seq.info().unwrap().tokens, count as u64);
    let (mut k, mut v) = (vec![POISON; LAYERS * count * ROW], vec![POISON; LAYERS * count * ROW]);
    seq.gather(&rows(count, 0, count), (&mut k, &mut v)).unwrap();
    for layer in 0..LAYERS {
        for (i, &position) in kept.iter().enumerate() {
            let at = (layer * count + i) * ROW;
            assert_eq!((&k[at..at + ROW], &v[at..at + ROW]), model.at(layer, position as usize));
        }
    }
    refused(seq.compact(&[3, 2]), ErrorKind::Range, &["2"]);
    seq.compact(&[]).unwrap();
    assert_eq!(seq.info().unwrap().tokens, 0);
}

#[test]
fn extras_are_part_of_the_name() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(128, 21);
    let image = [Extra { token_begin: 70, token_count: 10, data: b"digest of an image" }];
    let seen = SeqOptions { extras: &image, ..options() };
    let mut seq = scope.seq(&seen).unwrap();
    model.append_to(&mut seq, 0, 128).unwrap();
    assert_eq!(scope.peek(&model.tokens, &options()).unwrap().tokens, 64);
    assert_eq!(scope.peek(&model.tokens, &seen).unwrap().tokens, 128);
    let mut later = scope.seq(&options()).unwrap();
    later.append_ids(&model.tokens).unwrap();
    later.identify(&[Extra { data: b"another", ..image[0] }]).unwrap();
    later.append(&[], &model.rows(0, 128), (&model.k, &model.v)).unwrap();
    let another = [Extra { data: b"another", ..image[0] }];
    assert_eq!(
        scope.peek(&model.tokens, &SeqOptions { extras: &another, ..options() }).unwrap().tokens,
        128
    );
    refused(later.identify(&image), ErrorKind::Range, &[]);
}

#[test]
fn a_published_sequence_is_attached_until_it_is_withdrawn() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 22);
    let mut seq = model.store(&scope);
    seq.publish("turn 1", Some(FOREVER)).unwrap();
    drop(seq);
    let attached = scope.attach("turn 1", &options()).unwrap();
    model.check(&attached, 100);
    scope.withdraw("turn 1").unwrap();
    refused(scope.attach("turn 1", &options()), ErrorKind::NotFound, &[]);
    refused(scope.withdraw("turn 1"), ErrorKind::NotFound, &[]);
    model.check(&attached, 100);
    refused(scope.attach("", &options()), ErrorKind::Argument, &[]);
}

#[test]
fn a_saved_sequence_comes_back_in_another_store() {
    let folder = std::env::temp_dir().join(format!("kvc-rust-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("saved");
    let model = Model::new(150, 23);
    {
        let store = store();
        model.store(&scope(&store)).save(&path).unwrap();
    }
    let store = store();
    let scope = scope(&store);
    let mut back = scope.restore(&path, &options()).unwrap();
    model.check(&back, 150);
    back.append(&[1], &rows(1, 150, 151).slot_begin(0), (&model.k[..48], &model.v[..48])).unwrap();
    refused(scope.restore(folder.join("none"), &options()), ErrorKind::NotFound, &["none"]);
    let failed = back.save(folder.join("no/such/folder")).unwrap_err();
    assert_eq!((failed.kind(), failed.os_error()), (ErrorKind::Io, Some(2)));
    let source =
        std::error::Error::source(&failed).and_then(|error| error.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(5000);
    std::fs::write(&path, bytes).unwrap();
    refused(scope.restore(&path, &options()), ErrorKind::Corrupt, &["bytes"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn ranks_write_slices_of_one_chunk() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(128, 24);
    let rank = |heads: std::ops::Range<u32>| SeqOptions { heads, write_id: [7; 16], ..options() };
    let mut ranks = [scope.seq(&rank(0..1)).unwrap(), scope.seq(&rank(1..2)).unwrap()];
    for (head, seq) in ranks.iter_mut().enumerate() {
        let side = |memory| Side {
            memory,
            offset: head * DIM * 2,
            strides: Strides {
                layer: 128 * ROW as u64 * 2,
                token: ROW as u64 * 2,
                ..Default::default()
            },
            ..Default::default()
        };
        let rows =
            Rows::new(0..3, 0..128).k(side(0)).v(side(1)).heads(head as u32..head as u32 + 1);
        seq.append(&model.tokens, &rows, (&model.k, &model.v)).unwrap();
    }
    let (seq, found) = scope.match_prefix(&model.tokens, &options()).unwrap();
    assert_eq!(found.tokens, 128);
    model.check(&seq, 128);
    refused(scope.seq(&rank(1..3)), ErrorKind::Range, &[]);
}

#[test]
fn leases_hints_and_prefetch_say_what_becomes_of_rows() {
    let store = store_with(StoreOptions { memory_bytes: 2 << 20, ..Default::default() });
    let scope = scope(&store);
    let model = Model::new(192, 25);
    let seq = model.store(&scope);
    assert_eq!(seq.prefetch(&model.rows(0, 192), Tier::Host).unwrap().done, 192);
    refused(seq.prefetch(&model.rows(0, 192), Tier::Nvme), ErrorKind::Unsupported, &[]);
    let lease = seq.lease(0..128, Some(FOREVER)).unwrap();
    drop(seq);
    for seed in 0..300 {
        let mut other = Model::new(128, 1000 + seed).store(&scope);
        other
            .hint(&Hint {
                done: seed % 2 == 0,
                continues_in: Some(Duration::from_secs(60)),
                turn: 1,
                priority: 1,
            })
            .unwrap();
    }
    assert!(store.metrics().unwrap().evicted_chunks > 0, "the store was never full");
    assert_eq!(
        scope.peek(&model.tokens, &options()).unwrap().tokens,
        128,
        "what a lease holds stays"
    );
    lease.renew(Some(Duration::from_secs(10))).unwrap();
    drop(lease);
    assert_eq!(store.info().unwrap().lease_count, 0);
}

#[test]
fn a_lapsed_sequence_says_to_where_it_goes_on() {
    let store = store_with(StoreOptions { memory_bytes: 2 << 20, ..Default::default() });
    let scope = scope(&store);
    let model = Model::new(192, 26);
    let options = SeqOptions { lease: Some(Duration::from_millis(1)), ..options() };
    let mut seq = scope.seq(&options).unwrap();
    model.append_to(&mut seq, 0, 192).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    for seed in 0..300 {
        drop(Model::new(128, 2000 + seed).store(&scope));
    }
    let info = seq.info().unwrap();
    assert!(info.tokens_held < 192 && info.lease_left.is_zero(), "{info:?}");
    let (mut k, mut v) = (vec![POISON; model.k.len()], vec![POISON; model.v.len()]);
    let gone = seq.gather(&model.rows(0, 192), (&mut k, &mut v)).unwrap_err();
    assert!(gone.is_gone() && gone.is_miss() && gone.retry() == Retry::Recompute, "{gone:?}");
    assert_eq!(gone.done(), info.tokens_held);
    seq.truncate(info.tokens_held).unwrap();
    model.append_to(&mut seq, info.tokens_held as usize, 192).unwrap();
    model.check(&seq, 192);
}

#[test]
fn a_cleared_scope_finds_nothing() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(128, 27);
    drop(model.store(&scope));
    scope.put("key", b"value").unwrap();
    assert_eq!(scope.clear().unwrap().done, 3);
    assert_eq!(scope.peek(&model.tokens, &options()).unwrap().tokens, 0);
    assert_eq!(scope.get("key").unwrap(), None);
}

#[test]
fn a_call_that_has_to_wait_ends_by_its_timeout() {
    let store =
        store_with(StoreOptions { memory_bytes: 2 << 20, wait: true, ..Default::default() });
    let scope = scope(&store);
    let held: Vec<_> = (0..2000)
        .map_while(|seed| {
            let mut seq = scope.seq(&SeqOptions { lease: Some(FOREVER), ..options() }).unwrap();
            let model = Model::new(64, 3000 + seed);
            let soon = Call { timeout: Some(Duration::from_millis(1)), ..Call::default() };
            soon.append(&mut seq, &model.tokens, &model.rows(0, 64), (&model.k, &model.v))
                .ok()
                .map(|()| seq)
        })
        .collect();
    assert!(held.len() > 10 && held.len() < 2000);
    let model = Model::new(64, 1);
    let mut seq = scope.seq(&options()).unwrap();
    let begin = std::time::Instant::now();
    let soon = Call {
        timeout: Some(Duration::from_millis(50)),
        trace: 1 << 100 | 5,
        local: true,
        hot: true,
        ..Call::default()
    };
    let full =
        soon.append(&mut seq, &model.tokens, &model.rows(0, 64), (&model.k, &model.v)).unwrap_err();
    assert!(full.is_full() && full.retry() == Retry::Later, "{full:?}");
    let waited = begin.elapsed();
    // Deadlines are as fine as the system's tick, some milliseconds.
    assert!(waited >= Duration::from_millis(40) && waited.as_secs() < 10, "{waited:?}");
}
