//! The C interface of [kvc](https://docs.rs/kvc), a store for the key/value cache of transformer attention, as it is: the headers'
//! declarations with their comments.  Programs use the crate `kvc`, which is safe; this one is for what that has no form for.
//!
//! The names are C's.  A struct whose first member is `size` has `init()`, which does what `KVC_INIT` does; the others have `zeroed()`.
//! The headers' manual page, `kvc/kvc.h`, says the rules: who owns what, which calls may run beside each other, what a failure leaves.
//!
//! The library is found by `KVC_LIB_DIR`, the folder of `libkvc.so`, else by pkg-config.
#![no_std]
#![allow(non_camel_case_types)]

#[allow(clippy::doc_markdown, clippy::doc_lazy_continuation)]
mod bindings;

pub use bindings::*;
