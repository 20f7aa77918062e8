//! What can be a compile error is one.
#![allow(non_snake_case, reason = "the ids of field reports are written so")]

use std::process::Command;

/// The messages of the compiler are those of this version; another one words them otherwise.
const RUSTC: &str = "1.95.";

#[test]
fn B115_unsound_uses_do_not_compile() {
    let said =
        Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let version =
        said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    if version.split(' ').nth(1).is_some_and(|version| version.starts_with(RUSTC)) {
        cases.compile_fail("tests/ui/fail/*.rs");
    } else {
        println!("skipped: the messages are those of rustc {RUSTC}x, this is {version}");
    }
}
