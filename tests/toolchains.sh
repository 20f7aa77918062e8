# Sourced by run.sh and quickstart.sh: Go and Rust for the bindings.  What PATH has is taken where it is new enough; else a pinned one is fetched, by its
# checksum, into build/toolchains.  Each function puts what it found on PATH, or fails with a line that says why.
readonly toolchains=$PWD/build/toolchains
readonly go_version=1.26.8 go_sha256=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
readonly rustup_version=1.28.2 rustup_sha256=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c rust_version=1.95.0

at_least() { # VERSION LEAST
  [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

fetch() { # URL SHA256 FILE
  python3 - "$1" "$3" << 'EOF' && sha256sum --check --quiet <<< "$2  $3"
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
    while block := answer.read(1 << 20):
        file.write(block)
EOF
}

has_go() { at_least "$(go version 2> /dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')" 1.24; }
has_rust() { at_least "$(cargo --version 2> /dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p')" 1.85; }

find_go() {
  has_go && return
  PATH=$toolchains/go/bin:$PATH
  has_go && return
  [[ $(uname -m) == x86_64 ]] || { echo "Go 1.24 or later is not on PATH, and none is pinned for $(uname -m)"; return 1; }
  rm -rf "$toolchains/go" "$toolchains/unpacked"
  mkdir -p "$toolchains"
  fetch "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go$go_version.linux-amd64.zip" "$go_sha256" "$toolchains/go.zip" 2> /dev/null &&
    python3 -m zipfile -e "$toolchains/go.zip" "$toolchains/unpacked" &&
    chmod +x "$toolchains/unpacked/golang.org/toolchain@v0.0.1-go$go_version.linux-amd64"/{bin/*,pkg/tool/*/*} &&
    mv "$toolchains/unpacked/golang.org/toolchain@v0.0.1-go$go_version.linux-amd64" "$toolchains/go" && rm -r "$toolchains/unpacked" "$toolchains/go.zip" && has_go ||
    { echo "Go 1.24 or later is not on PATH, and go$go_version could not be had from proxy.golang.org"; return 1; }
}

find_rust() {
  has_rust && return
  export CARGO_HOME=$toolchains/cargo RUSTUP_HOME=$toolchains/rustup
  PATH=$toolchains/cargo/bin:$PATH
  has_rust && return
  [[ $(uname -m) == x86_64 ]] || { echo "Rust 1.85 or later is not on PATH, and none is pinned for $(uname -m)"; return 1; }
  rm -rf "$toolchains/cargo" "$toolchains/rustup"
  mkdir -p "$toolchains"
  fetch "https://static.rust-lang.org/rustup/archive/$rustup_version/x86_64-unknown-linux-gnu/rustup-init" "$rustup_sha256" "$toolchains/rustup-init" 2> /dev/null &&
    chmod +x "$toolchains/rustup-init" &&
    "$toolchains/rustup-init" -y --no-modify-path --profile minimal --component clippy,rustfmt --default-toolchain "$rust_version" > "$toolchains/rustup.log" 2>&1 && has_rust ||
    { echo "Rust 1.85 or later is not on PATH, and $rust_version could not be had from static.rust-lang.org"; return 1; }
}
