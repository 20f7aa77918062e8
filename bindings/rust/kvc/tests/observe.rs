//! What a store tells: info, counters, text, traces, events, log lines, checks.

mod common;

use common::*;
use kvc::*;
use std::sync::{Arc, Mutex};

#[test]
fn events_tell_what_a_match_finds() {
    let store = store();
    let scope = scope(&store);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    queue.watch(Some(&scope), EventKind::STORED | EventKind::CLEARED).unwrap();
    assert!(queue.events().unwrap().is_empty());
    let model = Model::new(200, 1);
    drop(model.store(&scope));
    let events = queue.events().unwrap();
    let fingerprint = scope.info().unwrap().fingerprint;
    assert_eq!(events.len(), 3);
    for (i, event) in events.iter().enumerate() {
        assert_eq!(
            (event.kind, event.tier_to, event.token_begin),
            (EventKind::STORED, Some(Tier::Host), 64 * i as u64)
        );
        assert_eq!(event.tokens, model.tokens[64 * i..64 * (i + 1)]);
        assert_eq!(
            (event.scope, event.parent),
            (fingerprint, if i == 0 { fingerprint } else { events[i - 1].chunk })
        );
        assert_eq!(event.sequence_number, events[0].sequence_number + i as u64);
    }
    scope.clear().unwrap();
    let cleared = queue.events().unwrap();
    assert_eq!(
        (cleared.len(), cleared[0].kind, cleared[0].scope),
        (1, EventKind::CLEARED, fingerprint)
    );
    queue.watch(None, EventKind::NONE).unwrap();
    drop(model.store(&scope));
    assert!(queue.events().unwrap().is_empty());
}

#[test]
fn a_reader_that_is_too_slow_is_told() {
    let store = store_with(StoreOptions { memory_bytes: 256 << 20, ..Default::default() });
    let scope = scope(&store);
    let queue = store.queue(&QueueOptions::default()).unwrap();
    queue.watch(None, EventKind::ALL).unwrap();
    for seed in 0..50 {
        drop(Model::new(6400, seed).store(&scope));
    }
    let events = queue.events().unwrap();
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::STORED).count(), 4096);
    assert_eq!(events.last().map(|event| event.kind), Some(EventKind::LOST));
    drop(Model::new(64, 99).store(&scope));
    let events = queue.events().unwrap();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::STORED]);
}

#[test]
fn numbers_are_of_what_was_done() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(200, 2);
    let seq = model.store(&scope);
    model.check(&seq, 200);
    scope.match_prefix(&model.tokens, &SeqOptions::default()).unwrap();
    let bytes = 2 * (LAYERS * 200 * ROW * 2) as u64;
    let metrics = store.metrics().unwrap();
    assert_eq!((metrics.append_bytes, metrics.gather_bytes), (bytes, bytes));
    assert_eq!((metrics.match_calls, metrics.match_tokens, metrics.hit_tokens), (1, 200, 192));
    let info = store.info().unwrap();
    assert_eq!(
        (info.memory_bytes, info.chunk_count, info.seq_count, info.state),
        (16 << 20, 3, 1, State::NONE)
    );
    assert!(
        info.memory_used > 0 && info.memory_pinned <= info.memory_used && info.features.is_empty()
    );
    let of_scope = scope.info().unwrap();
    assert_eq!((of_scope.chunk_count, of_scope.hit_tokens, of_scope.miss_tokens), (3, 192, 8));
    assert_eq!((of_scope.tokens_written, of_scope.tokens_read, of_scope.bytes_max), (200, 200, 0));
    let of_seq = seq.info().unwrap();
    assert_eq!(
        (of_seq.tokens, of_seq.tokens_sealed, of_seq.tokens_held, of_seq.copies),
        (200, 192, 200, 1)
    );
    assert!(of_seq.bytes_host > 0 && !of_seq.lease_left.is_zero() && of_seq.error_estimate == 0.0);
    let text = store.metrics_text().unwrap();
    let sample = text
        .lines()
        .find(|line| line.starts_with("kvc_append_bytes"))
        .expect("a sample of what was appended");
    assert_eq!(sample.rsplit(' ').next().unwrap().parse::<f64>().unwrap(), bytes as f64);
    assert!(text.ends_with('\n') && !text.contains('\0'));
}

#[test]
fn everything_held_is_read_and_checked() {
    let store = store();
    let seq = Model::new(200, 3).store(&scope(&store));
    let found = store.verify().unwrap();
    assert!(
        found.pages_read >= 9
            && found.pages_bad == 0
            && found.bytes_read > 0
            && found.first_bad.is_empty()
    );
    drop(seq);
}

#[test]
fn spans_go_to_a_file_that_perfetto_reads() {
    let store = store();
    let path = std::env::temp_dir().join(format!("kvc-rust-trace-{}.json", std::process::id()));
    store.trace(&path).unwrap();
    drop(Model::new(64, 4).store(&scope(&store)));
    store.stop_trace().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("append") && text.trim_end().ends_with([']', '}']), "{text}");
    std::fs::remove_file(&path).unwrap();
    let failed = store.trace("/nowhere/at/all").unwrap_err();
    assert_eq!((failed.kind(), failed.os_error()), (ErrorKind::Io, Some(2)));
}

#[test]
fn log_lines_come_until_the_store_is_closed() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let log =
        Log::new(move |level, line: &str| kept.lock().unwrap().push((level, line.to_owned())));
    let options = StoreOptions {
        log: Some(log),
        log_level: Some(Level::Info),
        memory_bytes: 2 << 20,
        ..Default::default()
    };
    let store = Store::open("mem:", &options).unwrap();
    store.close().unwrap();
    assert!(Store::open("nowhere", &options).is_err(), "and lets go of its log too");
    drop(options);
    let lines =
        Arc::try_unwrap(lines).expect("a closed store lets go of its log").into_inner().unwrap();
    assert_eq!(lines.iter().filter(|(level, _)| *level == Level::Info).count(), 2, "{lines:?}");
    assert!(lines.iter().all(|(_, line)| !line.is_empty() && !line.contains('\n')));
}

#[test]
fn a_panic_in_the_log_goes_no_further() {
    std::panic::set_hook(Box::new(|_| ())); // the panics are meant
    let log = Log::new(|_, _| panic!("a log of the host"));
    let store = store_with(StoreOptions {
        log: Some(log),
        log_level: Some(Level::Debug),
        ..Default::default()
    });
    let model = Model::new(200, 5);
    model.check(&model.store(&scope(&store)), 200);
    store.close().unwrap();
    let _ = std::panic::take_hook();
}
