//! Finds libkvc: in the folder that `KVC_LIB_DIR` names, else by pkg-config.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const VERSION: &str = "0.1";

fn main() {
    println!("cargo:rerun-if-env-changed=KVC_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation links nothing
    }
    let folders = match env::var_os("KVC_LIB_DIR") {
        Some(folder) => of_folder(PathBuf::from(folder)),
        None => of_pkg_config(),
    };
    for folder in &folders {
        println!("cargo:libdir={}", folder.display()); // DEP_KVC_LIBDIR of a build script that wants an rpath
        offer_to_cargo_run(folder);
    }
}

/// Ends the build with one line: cargo shows what a build script says on stderr.
fn stop(why: &str) -> ! {
    eprintln!("kvc-sys: {why}");
    std::process::exit(1)
}

fn of_folder(folder: PathBuf) -> Vec<PathBuf> {
    if !folder.join("libkvc.so").exists() {
        stop(&format!("KVC_LIB_DIR={}: there is no libkvc.so in it", folder.display()));
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=kvc");
    vec![folder]
}

fn of_pkg_config() -> Vec<PathBuf> {
    match pkg_config::Config::new().atleast_version(VERSION).probe("kvc") {
        Ok(library) => library.link_paths,
        Err(error) => {
            let said = error.to_string();
            let reason = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("");
            stop(&format!(
                "libkvc {VERSION} or later was not found: install it (cmake --install), and set PKG_CONFIG_PATH to \
                 its lib/pkgconfig or KVC_LIB_DIR to the folder of libkvc.so ({reason})"
            ))
        }
    }
}

/// What `cargo run` and `cargo test` start finds libraries below the target folder; one that is installed where the loader does not
/// look by itself gets links there.  A program that is installed needs an rpath, `LD_LIBRARY_PATH` or ldconfig, as any.
fn offer_to_cargo_run(folder: &Path) {
    let links = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lib");
    let _ = fs::create_dir_all(&links);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with("libkvc.so") {
            let link = links.join(entry.file_name());
            let _ = fs::remove_file(&link);
            let _ = symlink(entry.path(), &link);
        }
    }
    println!("cargo:rustc-link-search=native={}", links.display());
}
