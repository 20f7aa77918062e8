//! What can be a compile error is one.
#![allow(non_snake_case, reason = "the ids of field reports are written so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The messages of the compiler are those of this version; another one words them otherwise.
const RUSTC: &str = "1.95.";

/// The cases without their messages, in a folder of the build.
fn without_messages() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for case in fs::read_dir("tests/ui/fail").unwrap() {
        let case = case.unwrap().path();
        if case.extension().is_some_and(|extension| extension == "rs") {
            fs::copy(&case, folder.join(case.file_name().unwrap())).unwrap();
        }
    }
    folder
}

#[test]
fn B115_unsound_uses_do_not_compile() {
    let said =
        Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let version =
        said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut fail = PathBuf::from("tests/ui/fail");
    if !version.split(' ').nth(1).is_some_and(|version| version.starts_with(RUSTC)) {
        println!("the messages are those of rustc {RUSTC}x, and of {version} only failure counts");
        fail = without_messages();
        // A case that compiles fails all the same; the messages go to the copies.
        // SAFETY: this is the only test of the program, and no other thread looks at the environment.
        unsafe { std::env::set_var("TRYBUILD", "overwrite") };
    }
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail(fail.join("*.rs"));
}
