//! Objects, against a map of the standard library.

mod common;

use common::*;
use kvc::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn objects(store: &Store) -> Scope {
    store.scope(&ScopeOptions { model: "objects", ..Default::default() }).unwrap()
}

fn value(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next() as u8).collect()
}

#[test]
fn thousands_of_calls_agree_with_a_map() {
    let store = store();
    let scope = objects(&store);
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = Random::new(1);
    let mut buffer = vec![0u8; 4096];
    for _ in 0..5000 {
        let key = format!("key {}", random.below(60)).into_bytes();
        match random.below(5) {
            0 | 1 => {
                let bytes = random.below(3000);
                let new = value(&mut random, bytes);
                match map.get(&key) {
                    Some(held) if *held != new => {
                        refused(scope.put(&key, &new), ErrorKind::Exists, &[]);
                    }
                    _ => {
                        scope.put(&key, &new).unwrap();
                        map.insert(key, new);
                    }
                }
            }
            2 => assert_eq!(scope.get(&key).unwrap(), map.get(&key).cloned()),
            3 => {
                buffer.fill(0xA5);
                let size = scope.get_into(&key, &mut buffer).unwrap();
                assert_eq!(size.map(|size| &buffer[..size]), map.get(&key).map(Vec::as_slice));
                assert!(buffer[size.unwrap_or(0)..].iter().all(|&byte| byte == 0xA5));
            }
            _ => {
                assert_eq!(scope.contains(&key).unwrap(), map.contains_key(&key));
                assert_eq!(scope.delete(&key).unwrap(), map.remove(&key).is_some());
            }
        }
    }
    let listed: Vec<_> = scope
        .objects()
        .map(|entry| entry.map(|entry| (entry.key, entry.value_size)).unwrap())
        .collect();
    let held: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.len() as u64)).collect();
    assert_eq!(listed, held);
    assert_eq!(store.info().unwrap().object_count as usize, map.len());
}

#[test]
fn a_batch_tells_of_each_item() {
    let store = store();
    let scope = objects(&store);
    let (a, b) = (vec![1u8; 100], vec![2u8; 5000]);
    let mut items = [
        Put::new("a", &a),
        Put::parts("b", &[&b[..10], &b[10..10], &b[10..]]),
        Put::new("empty", &[]),
    ];
    let report = scope.put_batch(&mut items, &PutOptions::default()).unwrap();
    assert_eq!((report.done, report.bytes), (3, 5100));
    let (mut whole, mut front, mut back, mut short) =
        ([0u8; 100], [0u8; 3000], [0u8; 3000], [0xA5u8; 99]);
    let mut items = [
        Get::new("a", &mut whole),
        Get::new("none", &mut []),
        Get::parts("b", [&mut front[..], &mut back[..]]),
        Get::new("a", &mut short),
        Get::new("empty", &mut []),
    ];
    let failed = scope.get_batch(&mut items).unwrap_err();
    assert!(failed.is_not_found() && failed.done() == 1);
    let outcomes = items.each_ref().map(Get::outcome);
    assert_eq!(outcomes[0].size(), Ok(100));
    assert_eq!(outcomes[0].tier(), Some(Tier::Host));
    assert_eq!(outcomes[1].error(), Some(ErrorKind::NotFound));
    assert_eq!(outcomes[2].size(), Ok(5000));
    assert_eq!((outcomes[3].error(), outcomes[3].value_size()), (Some(ErrorKind::Range), 100));
    assert_eq!(outcomes[4].size(), Ok(0));
    assert!(
        whole == a[..]
            && front == b[..3000]
            && back[..2000] == b[3000..]
            && back[2000..] == [0; 1000]
    );
    assert_eq!(short, [0xA5; 99]);
    let (mut first, mut second) = ([0u8; 100], [0u8; 100]);
    let mut items = [Get::new("none", &mut first), Get::new("a", &mut second)];
    let failed = Call::DEFAULT.get_batch(&scope, &mut items, true).unwrap_err();
    assert!(failed.is_not_found() && items[1].outcome().error() == Some(ErrorKind::NotFound));
    let gone = scope.delete_batch(&["a", "none", "b"]).unwrap();
    assert_eq!(gone.iter().map(Outcome::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn a_group_becomes_visible_together_or_not_at_all() {
    let store = store();
    let scope = objects(&store);
    scope.put("taken", b"other").unwrap();
    let mut items = [Put::new("new", b"1"), Put::new("taken", b"2")];
    let group = PutOptions { group: true, ..Default::default() };
    let failed = scope.put_batch(&mut items, &group).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Exists);
    assert_eq!(scope.get("new").unwrap(), None);
    scope.put_batch(&mut items[..1], &group).unwrap();
    assert_eq!(scope.get("new").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn an_item_that_no_call_came_to_is_not_ok() {
    let store = store_with(StoreOptions { host_driven: true, ..Default::default() });
    let scope = objects(&store);
    let (put, mut memory) = (Put::new("a", b"b"), [0u8; 4]);
    let outcomes =
        [put.outcome(), Get::new("a", &mut memory).outcome(), Item::new("a", vec![1u8]).outcome];
    for outcome in outcomes.into_iter().chain([Item::<Vec<u8>>::default().outcome]) {
        assert!(!outcome.is_ok());
        assert_eq!((outcome.error(), outcome.tier()), (Some(ErrorKind::Misuse), None));
    }
    // refused as a whole
    let queue = store.queue(&QueueOptions { depth: 1, ..Default::default() }).unwrap();
    let taken = queue.clear(&scope);
    let items = vec![Item::new("a", vec![1u8]), Item::new("b", vec![1u8])];
    let (items, report) = queue.put(&scope, items, &PutOptions::default()).wait();
    assert!(report.unwrap_err().is_busy());
    assert!(items.iter().all(|item| item.outcome.error() == Some(ErrorKind::Busy)));
    taken.wait().unwrap();
    assert_eq!(scope.put_batch(&mut [put], &PutOptions::default()).unwrap().done, 1);
}

#[test]
fn what_was_looked_up_with_a_lease_stays() {
    let store = store_with(StoreOptions { memory_bytes: 2 << 20, ..Default::default() });
    let scope = objects(&store);
    let held = vec![7u8; 10_000];
    for key in ["a", "b"] {
        scope.put(key, &held).unwrap();
    }
    let options = ExistsOptions { hold: true, lease: Some(FOREVER), leading: true };
    let found = scope.exists(&["a", "b", "none", "a"], options).unwrap();
    assert_eq!((found.leading(), found.outcomes[0].size()), (2, Ok(10_000)));
    for i in 0..500 {
        scope.put(&format!("more {i}"), &vec![i as u8; 10_000]).unwrap();
    }
    assert_eq!(scope.get("a").unwrap(), Some(held));
    assert_eq!(scope.get("more 0").unwrap(), None, "the store was never full");
    assert_eq!(store.info().unwrap().lease_count, 1);
    drop(found);
    assert_eq!(store.info().unwrap().lease_count, 0);
    assert!(scope.exists(&["none"], options).unwrap().lease.is_none());
}

#[test]
fn values_with_a_layout_are_rows_and_come_back_byte_for_byte() {
    let store = store();
    let scope = scope(&store);
    let mut random = Random::new(5);
    let side = LAYERS * 32 * ROW * 2;
    let values: Vec<_> = (0..4).map(|_| value(&mut random, 2 * side)).collect();
    let layout = Rows::new(0..3, 0..32)
        .strides(Strides { layer: side as u64 / 3, ..Default::default() })
        .v_offset(side);
    let keys: Vec<_> = (0..4).map(|i| format!("rows {i}")).collect();
    let mut items: Vec<_> =
        keys.iter().zip(&values).map(|(key, value)| Put::new(key, value)).collect();
    scope
        .put_batch(&mut items, &PutOptions { layout: Some(&layout), ..Default::default() })
        .unwrap();
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(scope.get(key).unwrap().as_ref(), Some(value));
    }
    let wrong = layout.v_offset(side + 2);
    let failed = scope
        .put_batch(&mut items[..1], &PutOptions { layout: Some(&wrong), ..Default::default() });
    refused(failed, ErrorKind::Argument, &[]);
}

#[test]
fn numbers_are_put_as_their_bytes() {
    let store = store();
    let scope = objects(&store);
    let numbers = [1.5f32, -2.0, f32::INFINITY];
    scope.put("numbers", bytes_of(&numbers)).unwrap();
    let mut back = [0f32; 3];
    assert_eq!(scope.get_into("numbers", bytes_of_mut(&mut back)).unwrap(), Some(12));
    assert_eq!(back, numbers);
}

#[test]
fn unused_objects_are_dropped_after_their_time() {
    let store = store();
    let scope = objects(&store);
    let short = PutOptions { ttl: Some(Duration::from_millis(20)), ..Default::default() };
    scope.put_batch(&mut [Put::new("short", b"1")], &short).unwrap();
    scope
        .put_batch(
            &mut [Put::new("long", b"1")],
            &PutOptions { ttl: Some(FOREVER), ..Default::default() },
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!((scope.contains("short").unwrap(), scope.contains("long").unwrap()), (false, true));
}

#[test]
fn lists_go_on_behind_a_key() {
    let store = store();
    let scope = objects(&store);
    let keys: Vec<Vec<u8>> = (0..600u32).map(|i| i.to_be_bytes().to_vec()).collect();
    for key in &keys {
        scope.put(key, key).unwrap();
    }
    let page = scope.list(&keys[9], 5).unwrap();
    assert_eq!(page.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), keys[10..15]);
    assert_eq!(scope.objects().count(), 600);
    assert!(scope.list(&keys[599], 5).unwrap().is_empty());
    refused(scope.list(&[], 0), ErrorKind::Argument, &[]);
}

#[test]
fn bad_items_are_refused_by_value_and_rule() {
    let store = store();
    let scope = objects(&store);
    refused(scope.put("", b"x"), ErrorKind::Argument, &["key"]);
    refused(scope.put(&[7u8; 65], b"x"), ErrorKind::Argument, &["65"]);
    refused(scope.get(&[0u8; 65]), ErrorKind::Argument, &["65"]);
    refused(scope.contains(""), ErrorKind::Argument, &[]);
    refused(scope.delete(""), ErrorKind::Argument, &[]);
    refused(scope.get_batch(&mut []), ErrorKind::Argument, &[]);
    refused(scope.put_batch(&mut [], &PutOptions::default()), ErrorKind::Argument, &[]);
    scope.put("key", b"value").unwrap();
    refused(scope.get_into("key", &mut [0; 4]), ErrorKind::Range, &["5"]);
    refused(
        store.scope(&ScopeOptions { model: "a\0b", ..Default::default() }),
        ErrorKind::Argument,
        &["model", "1"],
    );
    refused(store.scope(&ScopeOptions::default()), ErrorKind::Argument, &["model"]);
}
