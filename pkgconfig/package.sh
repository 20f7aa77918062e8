#!/usr/bin/env bash
# Makes the source tarball and the Debian packages of a checkout.
#
#   bash pkgconfig/package.sh OUT            OUT/kvc-VERSION.tar.xz, and the .debs built from it: libkvc0, libkvc-dev, kvc-tools
#   bash pkgconfig/package.sh --source OUT   the tarball alone
#
# The tarball holds the tracked files of the checkout, as they lie there, and mimalloc: the pinned source that lib/mimalloc.cmake names.  Debian's
# libmimalloc-dev cannot take its place, for it has no sources, and its objects replace malloc.  With mimalloc inside, a build of the tarball
# fetches nothing.  Making it needs the pinned archive once: a build tree's, KVC_MIMALLOC_ARCHIVE=FILE, or the network.
#
# The same commit gives the same tarball: names sorted, owner 0, times those of the commit or SOURCE_DATE_EPOCH.  DEB_BUILD_OPTIONS is honoured.
# Packages are numbered VERSION-0kvc1, so that one which Debian makes itself, VERSION-1, will replace them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "package.sh: $*" >&2; exit 1; }

source_only=0
[[ ${1:-} != --source ]] || { source_only=1; shift; }
(($# == 1)) || fail "one folder for the results is needed: package.sh [--source] OUT"
git rev-parse --is-inside-work-tree > /dev/null 2>&1 || fail "the files of a tarball are those that git tracks, and this is no git checkout"
mkdir -p "$1"
out=$(realpath "$1")
version=$(sed -n 's/^project(kvc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[[ $version ]] || fail "CMakeLists.txt names no version in project(kvc VERSION ...)"
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
readonly out version epoch name=kvc-$version
readonly tarball=$out/$name.tar.xz

mimalloc_archive() { # prints the path of the archive that lib/mimalloc.cmake pins, fetched if no build tree has it
  local url sum archive
  url=$(sed -n 's/^ *URL \(https:[^ ]*\).*/\1/p' lib/mimalloc.cmake)
  sum=$(sed -n 's/^ *URL_HASH SHA256=\([0-9a-f]*\).*/\1/p' lib/mimalloc.cmake)
  [[ $url && $sum ]] || fail "lib/mimalloc.cmake names no URL and SHA256 of mimalloc"
  archive=$out/.build/$(basename "$url").tar.gz
  local candidates=("$archive" build/*/_deps/kvc_mimalloc_crate-subbuild/*/src/*.tar.gz)
  [[ -z ${KVC_MIMALLOC_ARCHIVE:-} ]] || candidates=("$KVC_MIMALLOC_ARCHIVE")
  for candidate in "${candidates[@]}"; do
    [[ -f $candidate && $(sha256sum < "$candidate") == "$sum  -" ]] && { realpath "$candidate"; return; }
  done
  [[ -z ${KVC_MIMALLOC_ARCHIVE:-} ]] || fail "KVC_MIMALLOC_ARCHIVE '$KVC_MIMALLOC_ARCHIVE': its SHA-256 is not the $sum of lib/mimalloc.cmake"
  echo "file(DOWNLOAD $url $archive EXPECTED_HASH SHA256=$sum)" > "$out/.build/fetch.cmake"
  cmake -P "$out/.build/fetch.cmake" > "$out/.build/fetch.log" 2>&1 || fail "$url cannot be had, and no build tree has it: see $out/.build/fetch.log"
  echo "$archive"
}

make_tarball() {
  local stage=$out/.build/stage archive
  rm -rf "$stage"
  mkdir -p "$stage/$name/mimalloc"
  archive=$(mimalloc_archive)
  git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$stage/$name" || fail "a tracked file is not there: see git status"
  tar -xf "$archive" -C "$stage/$name/mimalloc" --strip-components=3 --wildcards '*/c_src/mimalloc/'{include,src,LICENSE}
  # Whoever makes the tarball has a umask and a clock of his own; neither shows.
  chmod -R u=rwX,go=rX "$stage/$name"
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu -cf - "$name" | xz -T1 -6 > "$tarball.part"
  mv "$tarball.part" "$tarball"
  rm -rf "$stage"
}

make_debs() { # from the tarball alone; always in the same folder, so that a compiler cache knows the files again
  local build=$out/.build/deb tree date
  command -v dpkg-buildpackage > /dev/null || fail "dpkg-buildpackage is not there: Debian packages are made on Debian"
  rm -rf "$build"
  mkdir -p "$build"
  cp "$tarball" "$build/kvc_$version.orig.tar.xz"
  tar -xf "$tarball" -C "$build"
  tree=$build/$name
  cp -r "$tree/pkgconfig/debian" "$tree/debian"
  date=$(LC_ALL=C date -u -R -d "@$epoch")
  sed "s/@VERSION@/$version/; s/@DATE@/$date/" "$tree/debian/changelog.in" > "$tree/debian/changelog"
  rm "$tree/debian/changelog.in"
  (cd "$tree" && dpkg-checkbuilddeps) || fail "build dependencies are missing, named above: install them with apt-get"
  echo "building, about two minutes: see $out/build.log" >&2
  (cd "$tree" && SOURCE_DATE_EPOCH=$epoch dpkg-buildpackage -us -uc -b) > "$out/build.log" 2>&1 || fail "dpkg-buildpackage failed: see $out/build.log"
  rm -f "$out"/{kvc,libkvc}*.{deb,changes,buildinfo}
  mv "$build"/*.deb "$build"/*.changes "$build"/*.buildinfo "$out"
  rm -rf "$build"
}

mkdir -p "$out/.build"
make_tarball
((source_only)) || make_debs
ls -1 "$out"
