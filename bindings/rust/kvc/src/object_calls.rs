//! The calls on objects that block.

use crate::call::Call;
use crate::error::{Error, ErrorKind, Result, check, check_result};
use crate::lease::Lease;
use crate::object::{
    ExistsOptions, Found, Get, ObjectEntry, Outcome, Put, PutOptions, key_only, leading_options,
};
use crate::rows::pointer_of;
use crate::scope::Scope;
use crate::types::Report;
use kvc_sys as sys;

impl Call {
    /// [`Scope::put_batch`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn put_batch(
        &self,
        scope: &Scope,
        items: &mut [Put<'_>],
        options: &PutOptions<'_>,
    ) -> Result<Report> {
        let (mut options, call) = (options.raw(), self.blocking());
        let options = options.pointer();
        let mut raw: Vec<_> = items.iter().map(|item| item.0.raw()).collect();
        // SAFETY: the items borrow keys and values until the end of this function.
        let done = check_result(|result, error| unsafe {
            let at = raw.as_mut_ptr();
            sys::kvc_object_put(result, scope.raw(), at, raw.len(), options, call.pointer(), error)
        });
        for (item, raw) in items.iter_mut().zip(&raw) {
            item.0.outcome = Outcome::of(raw, &done);
        }
        done.map(|result| Report::of(&result))
    }

    /// [`Scope::get_batch`] so; `leading`: stop at the first that fails.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get_batch(&self, scope: &Scope, items: &mut [Get<'_>], leading: bool) -> Result<Report> {
        let (options, call) = (leading_options(leading), self.blocking());
        let mut raw: Vec<_> = items.iter().map(|item| item.0.raw()).collect();
        // SAFETY: the items borrow keys and, alone, their memory until the end of this function.
        let done = check_result(|result, error| unsafe {
            let (at, options) = (raw.as_mut_ptr(), &raw const options);
            sys::kvc_object_get(result, scope.raw(), at, raw.len(), options, call.pointer(), error)
        });
        for (item, raw) in items.iter_mut().zip(&raw) {
            item.0.outcome = Outcome::of(raw, &done);
        }
        done.map(|result| Report::of(&result))
    }

    /// [`Scope::exists`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn exists<K: AsRef<[u8]>>(
        &self,
        scope: &Scope,
        keys: &[K],
        options: ExistsOptions,
    ) -> Result<Found> {
        let (options, call) = (options.raw(), self.blocking());
        let mut raw: Vec<_> = keys.iter().map(|key| key_only(key.as_ref())).collect();
        // SAFETY: the keys live until the end of this function.
        let done = check_result(|result, error| unsafe {
            let (at, options) = (raw.as_mut_ptr(), &raw const options);
            sys::kvc_object_exists(
                result,
                scope.raw(),
                at,
                raw.len(),
                options,
                call.pointer(),
                error,
            )
        });
        let outcomes = raw.iter().map(|raw| Outcome::of(raw, &done)).collect();
        let result = done?;
        let lease = (!result.lease.is_null()).then(|| Lease::of(result.lease, scope.store()));
        Ok(Found { outcomes, lease })
    }

    /// [`Scope::delete_batch`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delete_batch<K: AsRef<[u8]>>(&self, scope: &Scope, keys: &[K]) -> Result<Vec<Outcome>> {
        let call = self.blocking();
        let mut raw: Vec<_> = keys.iter().map(|key| key_only(key.as_ref())).collect();
        // SAFETY: the keys live until the end of this function.
        let done = check_result(|result, error| unsafe {
            let at = raw.as_mut_ptr();
            sys::kvc_object_delete(result, scope.raw(), at, raw.len(), call.pointer(), error)
        });
        match done {
            Err(error) if !error.is_not_found() => Err(error),
            done => Ok(raw.iter().map(|raw| Outcome::of(raw, &done)).collect()),
        }
    }

    /// [`Scope::list`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list(&self, scope: &Scope, after: &[u8], count: usize) -> Result<Vec<ObjectEntry>> {
        let call = self.blocking();
        let mut entries = vec![sys::kvc_object_entry::zeroed(); count];
        let mut found = 0;
        // SAFETY: as many entries are there as is said.
        check(|error| unsafe {
            let (at, found, key) = (entries.as_mut_ptr(), &raw mut found, pointer_of(after).cast());
            sys::kvc_object_list(
                at,
                count,
                found,
                scope.raw(),
                key,
                after.len(),
                call.pointer(),
                error,
            )
        })?;
        Ok(entries[..found].iter().map(ObjectEntry::of).collect())
    }
}

impl Scope {
    /// Puts one value under a key of 1 to 64 bytes.  Equal bytes may be put again.
    ///
    /// # Errors
    ///
    /// [`Exists`](ErrorKind::Exists): the key holds other bytes.  [`Full`](ErrorKind::Full): no room, and nothing left that may be evicted.
    pub fn put(&self, key: &(impl AsRef<[u8]> + ?Sized), value: &[u8]) -> Result<()> {
        let item = Put::new(key, value);
        let mut raw = item.0.raw();
        let (none, options, call) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: key and value live until the end of this function.
        check(|error| unsafe {
            sys::kvc_object_put(none, self.raw(), &raw mut raw, 1, options, call, error)
        })
    }

    /// Gets one value into memory, which it may be shorter than; `None`: no such key.  Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Gone`](ErrorKind::Gone): it failed its check and was dropped.  [`Range`](ErrorKind::Range): the memory is shorter than the value, and
    /// nothing was written.
    pub fn get_into(
        &self,
        key: &(impl AsRef<[u8]> + ?Sized),
        value: &mut [u8],
    ) -> Result<Option<usize>> {
        match self.get_one(key.as_ref(), value) {
            (Ok(()), size) => Ok(Some(size)),
            (Err(error), _) if error.is_not_found() => Ok(None),
            (Err(error), _) => Err(error),
        }
    }

    #[inline]
    fn get_one(&self, key: &[u8], value: &mut [u8]) -> (Result<()>, usize) {
        let part = sys::kvc_bytes { data: value.as_mut_ptr().cast(), bytes: value.len() as u64 };
        let mut raw = key_only(key);
        raw.parts = &raw const part;
        raw.part_count = 1;
        let (none, options, call) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: key and, alone, the memory are borrowed until the end of this function.
        let done = check(|error| unsafe {
            sys::kvc_object_get(none, self.raw(), &raw mut raw, 1, options, call, error)
        });
        (done, raw.value_size as usize)
    }

    /// Gets one value; `None`: no such key.
    ///
    /// # Errors
    ///
    /// [`Gone`](ErrorKind::Gone): it failed its check and was dropped.
    pub fn get(&self, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        loop {
            match self.get_one(key.as_ref(), &mut value) {
                (Ok(()), size) => {
                    value.truncate(size);
                    return Ok(Some(value));
                }
                // Another value may stand there each time it is looked at.
                (Err(error), size) if error.kind() == ErrorKind::Range => value.resize(size, 0),
                (Err(error), _) if error.is_not_found() => return Ok(None),
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Whether a key holds a value.
    ///
    /// # Errors
    ///
    /// [`Argument`](ErrorKind::Argument): no key of 1 to 64 bytes.
    pub fn contains(&self, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<bool> {
        let found = self.exists(&[key.as_ref()], ExistsOptions::default())?;
        match found.outcomes[0].error() {
            None => Ok(true),
            Some(ErrorKind::NotFound) => Ok(false),
            Some(kind) => Err(Error::of_kind(kind, format!("the key: {kind}"))),
        }
    }

    /// Deletes a value; false: there was none.
    ///
    /// # Errors
    ///
    /// [`Argument`](ErrorKind::Argument): no key of 1 to 64 bytes.
    pub fn delete(&self, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<bool> {
        Ok(self.delete_batch(&[key.as_ref()])?[0].is_ok())
    }

    /// Puts values.  Items are independent of each other unless they are a group; each has its outcome.
    ///
    /// # Errors
    ///
    /// That of the first item which failed: [`Exists`](ErrorKind::Exists): its key holds other bytes.  [`Full`](ErrorKind::Full): no room, and
    /// nothing left that may be evicted.  [`Shape`](ErrorKind::Shape), [`Range`](ErrorKind::Range): the layout is none of the scope's shape.
    ///
    /// ```
    /// use kvc::{Get, Put, PutOptions};
    /// # fn main() -> kvc::Result<()> {
    /// # let store = kvc::Store::open("mem:", &kvc::StoreOptions { memory_bytes: 8 << 20, ..Default::default() })?;
    /// let scope = store.scope(&kvc::ScopeOptions { model: "m", ..Default::default() })?;
    /// scope.put_batch(&mut [Put::new("a", b"alpha"), Put::parts("b", &[b"be", b"ta"])], &PutOptions::default())?;
    /// let (mut a, mut b) = ([0; 5], [0; 4]);
    /// scope.get_batch(&mut [Get::new("a", &mut a), Get::new("b", &mut b)])?;
    /// assert_eq!((&a, &b), (b"alpha", b"beta"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_batch(&self, items: &mut [Put<'_>], options: &PutOptions<'_>) -> Result<Report> {
        Call::DEFAULT.put_batch(self, items, options)
    }

    /// Gets values; each item has its outcome.
    ///
    /// # Errors
    ///
    /// That of the first item which failed: [`NotFound`](ErrorKind::NotFound): no such key.  [`Gone`](ErrorKind::Gone): it failed its check and
    /// was dropped.  [`Range`](ErrorKind::Range): memory shorter than the value, and nothing of it was written.
    pub fn get_batch(&self, items: &mut [Get<'_>]) -> Result<Report> {
        Call::DEFAULT.get_batch(self, items, false)
    }

    /// Says which keys hold a value, and holds those if it is told so.
    ///
    /// # Errors
    ///
    /// [`Argument`](ErrorKind::Argument): no keys, or none of 1 to 64 bytes.
    pub fn exists<K: AsRef<[u8]>>(&self, keys: &[K], options: ExistsOptions) -> Result<Found> {
        Call::DEFAULT.exists(self, keys, options)
    }

    /// Deletes values.  Held ones are absent at once for new readers and go when the lease ends.  Where there was none the outcome is
    /// [`NotFound`](ErrorKind::NotFound).
    ///
    /// # Errors
    ///
    /// [`Argument`](ErrorKind::Argument): no keys, or none of 1 to 64 bytes.
    pub fn delete_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Outcome>> {
        Call::DEFAULT.delete_batch(self, keys)
    }

    /// The next entries behind a key, in key order; at the end fewer than `count`.  An empty key: from the start.
    ///
    /// # Errors
    ///
    /// [`Argument`](ErrorKind::Argument): a count of 0.
    pub fn list(&self, after: &[u8], count: usize) -> Result<Vec<ObjectEntry>> {
        Call::DEFAULT.list(self, after, count)
    }

    /// All entries in key order, as they are when they are come to.
    #[must_use]
    pub fn objects(&self) -> Objects<'_> {
        Objects { scope: self, page: Vec::new().into_iter(), after: Vec::new(), is_last: false }
    }
}

/// What [`Scope::objects`] goes through.
#[derive(Debug)]
pub struct Objects<'a> {
    scope: &'a Scope,
    page: std::vec::IntoIter<ObjectEntry>,
    after: Vec<u8>,
    is_last: bool,
}

impl Iterator for Objects<'_> {
    type Item = Result<ObjectEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        const PAGE: usize = 256;
        if let Some(entry) = self.page.next() {
            return Some(Ok(entry));
        }
        if self.is_last {
            return None;
        }
        match self.scope.list(&self.after, PAGE) {
            Ok(page) => {
                self.is_last = page.len() < PAGE;
                if let Some(last) = page.last() {
                    self.after.clone_from(&last.key);
                }
                self.page = page.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => {
                self.is_last = true;
                Some(Err(error))
            }
        }
    }
}
