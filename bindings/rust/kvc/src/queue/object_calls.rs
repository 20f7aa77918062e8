//! The calls on objects that a queue takes.

use super::{Given, Pending, Queue};
use crate::error::Result;
use crate::memory::{Buffer, span_of};
use crate::object::{
    ExistsOptions, Found, ObjectEntry, Outcome, PutOptions, key_only, leading_options,
};
use crate::rows::pointer_of;
use crate::scope::Scope;
use crate::types::Report;
use kvc_sys as sys;
use std::ptr::null_mut;

/// A key with the memory of its value, in one piece or several: what a queued put or get takes and gives back.
#[derive(Clone, Debug, Default)]
pub struct Item<B> {
    /// 1 to 64 bytes.
    pub key: Vec<u8>,
    /// The value, in order.
    pub parts: Vec<B>,
    /// What became of it in the last call.
    pub outcome: Outcome,
}

impl<B: Buffer> Item<B> {
    /// With a value in one piece.
    pub fn new(key: impl Into<Vec<u8>>, value: B) -> Self {
        Self { key: key.into(), parts: vec![value], outcome: Outcome::default() }
    }
}

/// What a put or get is lent: the items, and them as C takes them.
struct Batch<B> {
    items: Vec<Item<B>>,
    raw: Raw,
}

/// Keys, or items, as C takes them.
#[derive(Default)]
struct Raw {
    objects: Vec<sys::kvc_object>,
    parts: Vec<Vec<sys::kvc_bytes>>,
}

// SAFETY: what it points to is lent with it, in the same job.
unsafe impl Send for Raw {}

impl Raw {
    fn outcomes(&self, call: &Result<Given>) -> Vec<Outcome> {
        self.objects.iter().map(|raw| Outcome::of(raw, call)).collect()
    }
}

impl<B: Buffer> Batch<B> {
    fn new(items: Vec<Item<B>>) -> Self {
        Self { items, raw: Raw::default() }
    }

    /// Where the items are, and how many.
    fn prepare(&mut self) -> (*mut sys::kvc_object, usize) {
        let raw = &mut self.raw;
        for item in &mut self.items {
            let parts: Vec<_> = item
                .parts
                .iter_mut()
                .map(span_of)
                .map(|span| sys::kvc_bytes { data: span.data.cast(), bytes: span.bytes as u64 })
                .collect();
            let mut object = key_only(&item.key);
            object.parts = pointer_of(&parts);
            object.part_count = parts.len() as u64;
            raw.objects.push(object);
            raw.parts.push(parts);
        }
        (raw.objects.as_mut_ptr(), raw.objects.len())
    }

    fn finish(mut self, call: &Result<Given>) -> Vec<Item<B>> {
        for (item, raw) in self.items.iter_mut().zip(&self.raw.objects) {
            item.outcome = Outcome::of(raw, call);
        }
        self.items
    }
}

fn raw_keys<K: AsRef<[u8]>>(keys: &[K]) -> Raw {
    Raw { objects: keys.iter().map(|key| key_only(key.as_ref())).collect(), parts: Vec::new() }
}

struct List {
    entries: Vec<sys::kvc_object_entry>,
    found: usize,
}

impl Queue {
    /// [`Scope::put_batch`].
    pub fn put<B: Buffer>(
        &self,
        scope: &Scope,
        items: Vec<Item<B>>,
        options: &PutOptions<'_>,
    ) -> Pending<(Vec<Item<B>>, Result<Report>)> {
        let mut options = options.raw();
        let options = options.pointer();
        self.start(
            Batch::new(items),
            |batch, given| (batch.finish(&given), given.map(|given| given.report)),
            |batch| Ok(batch.prepare()),
            // SAFETY: items and values stay with the job until its result; keys, parts and options are copied.
            |&(at, count), call, error| unsafe {
                sys::kvc_object_put(null_mut(), scope.raw(), at, count, options, call, error)
            },
        )
    }

    /// [`Scope::get_batch`]; `leading`: stop at the first that fails.
    pub fn get<B: Buffer>(
        &self,
        scope: &Scope,
        items: Vec<Item<B>>,
        leading: bool,
    ) -> Pending<(Vec<Item<B>>, Result<Report>)> {
        let options = leading_options(leading);
        self.start(
            Batch::new(items),
            |batch, given| (batch.finish(&given), given.map(|given| given.report)),
            |batch| Ok(batch.prepare()),
            // SAFETY: items and memory stay with the job until its result; keys, parts and options are copied.
            |&(at, count), call, error| unsafe {
                let options = &raw const options;
                sys::kvc_object_get(null_mut(), scope.raw(), at, count, options, call, error)
            },
        )
    }

    /// [`Scope::exists`].
    pub fn exists<K: AsRef<[u8]>>(
        &self,
        scope: &Scope,
        keys: &[K],
        options: ExistsOptions,
    ) -> Pending<Result<Found>> {
        let options = options.raw();
        self.start(
            raw_keys(keys),
            |raw, given| Ok(Found { outcomes: raw.outcomes(&given), lease: given?.lease }),
            |raw| Ok((raw.objects.as_mut_ptr(), raw.objects.len())),
            // SAFETY: the items stay with the job until its result; keys and options are copied.
            |&(at, count), call, error| unsafe {
                let options = &raw const options;
                sys::kvc_object_exists(null_mut(), scope.raw(), at, count, options, call, error)
            },
        )
    }

    /// [`Scope::delete_batch`].
    pub fn delete<K: AsRef<[u8]>>(
        &self,
        scope: &Scope,
        keys: &[K],
    ) -> Pending<Result<Vec<Outcome>>> {
        self.start(
            raw_keys(keys),
            |raw, given| match given {
                Err(error) if !error.is_not_found() => Err(error),
                given => Ok(raw.outcomes(&given)),
            },
            |raw| Ok((raw.objects.as_mut_ptr(), raw.objects.len())),
            // SAFETY: the items stay with the job until its result; keys are copied.
            |&(at, count), call, error| unsafe {
                sys::kvc_object_delete(null_mut(), scope.raw(), at, count, call, error)
            },
        )
    }

    /// [`Scope::list`].
    pub fn list(
        &self,
        scope: &Scope,
        after: &[u8],
        count: usize,
    ) -> Pending<Result<Vec<ObjectEntry>>> {
        self.start(
            List { entries: vec![sys::kvc_object_entry::zeroed(); count], found: 0 },
            |list, given| {
                given?;
                Ok(list.entries[..list.found].iter().map(ObjectEntry::of).collect())
            },
            |list| Ok((list.entries.as_mut_ptr(), &raw mut list.found)),
            // SAFETY: entries and count stay with the job until its result; the key is copied.
            |&(at, found), call, error| unsafe {
                let key = pointer_of(after).cast();
                sys::kvc_object_list(at, count, found, scope.raw(), key, after.len(), call, error)
            },
        )
    }
}
