//! Failures: a kind, a family, one line; nothing of the host is harmed.
#![allow(non_snake_case, reason = "the ids of field reports are written so")]

mod common;

use common::*;
use kvc::*;
use std::error::Error as _;

#[test]
fn B109_a_store_of_bad_arguments_is_refused_by_value_and_rule() {
    let options = StoreOptions::default();
    refused(Store::open("", &options), ErrorKind::Argument, &[]);
    refused(Store::open("mem", &options), ErrorKind::Argument, &["mem"]);
    refused(Store::open("me\0m:", &options), ErrorKind::Argument, &["uri", "2"]);
    refused(Store::open("file:/tmp", &options), ErrorKind::Unsupported, &["file"]);
    let huge = StoreOptions { memory_bytes: 1 << 60, ..Default::default() };
    refused(Store::open("mem:", &huge), ErrorKind::Argument, &["memory_bytes"]);
    let many = StoreOptions { worker_count: 5000, ..Default::default() };
    refused(Store::open("mem:", &many), ErrorKind::Argument, &["5000"]);
}

#[test]
fn B109_wrong_appends_change_nothing() {
    let store = store();
    let scope = scope(&store);
    let model = Model::new(100, 1);
    let mut seq = model.store(&scope);
    let sides = (&model.k, &model.v);
    refused(seq.append(&[1], &model.rows(90, 91).slot_begin(0), sides), ErrorKind::Range, &[]);
    refused(seq.append(&[1], &model.rows(102, 103).slot_begin(0), sides), ErrorKind::Range, &[]);
    refused(seq.append(&[], &model.rows(100, 101).slot_begin(0), sides), ErrorKind::Range, &[]);
    refused(seq.append(&[], &[], sides), ErrorKind::Argument, &[]);
    refused(seq.append(&[1], &Rows::new(0..0, 100..101), sides), ErrorKind::Argument, &[]);
    let wide = [0f32; 3 * ROW];
    refused(
        seq.append(&[1], &rows(1, 100, 101).slot_begin(0), (&wide[..4], &wide[..4])),
        ErrorKind::Argument,
        &[],
    );
    refused(seq.truncate(101), ErrorKind::Range, &["101", "100"]);
    refused(seq.lease(50..101, None), ErrorKind::Range, &[]);
    refused(seq.publish("", None), ErrorKind::Argument, &[]);
    refused(seq.publish([0u8; 65], None), ErrorKind::Argument, &["65"]);
    refused(seq.compact(&[100]), ErrorKind::Range, &["100"]);
    model.check(&seq, 100);
    let plain = store.scope(&ScopeOptions { model: "objects", ..Default::default() }).unwrap();
    assert!(plain.seq(&SeqOptions::default()).is_err(), "a scope without a shape has objects only");
}

#[test]
fn handles_of_two_stores_do_not_mix() {
    let (one, other) = (store(), store());
    let (mut a, mut b) =
        (Model::new(64, 1).store(&scope(&one)), Model::new(64, 2).store(&scope(&other)));
    refused(reorder([&mut a, &mut b], &[1, 0]), ErrorKind::Misuse, &[]);
    let queue = one.queue(&QueueOptions::default()).unwrap();
    refused(queue.save(&b, "/tmp/none").wait(), ErrorKind::Misuse, &[]);
    refused(queue.watch(Some(&scope(&other)), EventKind::ALL), ErrorKind::Misuse, &[]);
}

#[test]
fn kinds_have_families_names_and_numbers() {
    for (kind, family, name, status) in [
        (ErrorKind::Argument, Family::Argument, "KVC_ERR_ARGUMENT", -10),
        (ErrorKind::Stale, Family::Misuse, "KVC_ERR_STALE", -21),
        (ErrorKind::Gone, Family::Data, "KVC_ERR_GONE", -31),
        (ErrorKind::Busy, Family::Room, "KVC_ERR_BUSY", -42),
        (ErrorKind::Denied, Family::Reach, "KVC_ERR_DENIED", -53),
        (ErrorKind::Version, Family::Ability, "KVC_ERR_VERSION", -61),
        (ErrorKind::Device, Family::System, "KVC_ERR_DEVICE", -71),
        (ErrorKind::Internal, Family::Bug, "KVC_ERR_INTERNAL", -90),
    ] {
        assert_eq!((kind.family(), kind.name(), kind.status()), (family, name, status));
        assert_eq!(kind.to_string(), name);
    }
}

#[test]
fn an_error_is_small_and_goes_where_errors_go() {
    fn goes<T: std::error::Error + Send + Sync + 'static>() {}
    goes::<kvc::Error>();
    assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    let failed = scope(&store()).restore("/nowhere", &SeqOptions::default()).unwrap_err();
    assert!(failed.is_not_found() && !failed.is_full());
    assert!(format!("{failed:?}").contains("NotFound"));
    let io: std::io::Error = failed.into();
    assert_eq!(io.kind(), std::io::ErrorKind::NotFound);
    assert!(io.raw_os_error().is_none() && io.to_string().contains("nowhere"));
    let inside = io.get_ref().and_then(|error| error.downcast_ref::<kvc::Error>());
    assert!(inside.is_some_and(|error| error.source().is_none() || error.os_error().is_some()));
}

#[test]
fn the_library_says_what_it_is() {
    assert_eq!(version(), (0, 1, 0));
    assert!(features().is_empty() && !features().contains(Features::CUDA));
}
