#!/bin/sh
# Builds what is published of this commit, into target/release-files: the program against the C library 2.28, packages of it, its symbols, the
# list of its crates, checksums, and their signature if LONGHAUL_SIGNING_KEY names a key of minisign(1). The same commit is to give
# the same bytes, wherever its clone and Cargo's directory are. scripts/setup-release.sh installs the tools.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
tools=$root/target/tools/release
out=$root/target/release-files
target=${TARGET:-x86_64-unknown-linux-gnu}
cargo=${CARGO_HOME:-$HOME/.cargo}
PATH=$tools/bin:$tools/python/bin:$PATH
for tool in cargo-auditable cargo-zigbuild cargo-cyclonedx; do
    command -v "$tool" >/dev/null || { echo "release: $tool is missing; run:  sh scripts/setup-release.sh" >&2; exit 1; }
done
if [ -n "$(git status --porcelain)" ]; then
    echo "release: this clone has changes that are not committed; nobody else can build this release" >&2
    [ "${LONGHAUL_RELEASE_DIRTY:-}" = yes ] || exit 1
fi

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# Paths of this machine are in messages of panics, in line tables and in assertions of C.
RUSTFLAGS="--remap-path-prefix=$root=/longhaul --remap-path-prefix=$cargo=/cargo -C link-arg=-Wl,--build-id=sha1"
CFLAGS="-ffile-prefix-map=$root=/longhaul -ffile-prefix-map=$cargo=/cargo"
export PATH SOURCE_DATE_EPOCH RUSTFLAGS CFLAGS
sh scripts/portal.sh
cargo auditable zigbuild --release --locked --package longhaul --target "$target.2.28" --target-dir target/release-build
unset RUSTFLAGS CFLAGS

rm -rf "$out"
mkdir -p "$out"
program=$root/target/release-build/$target/release/longhaul
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
machine=${target%%-*}
cargo cyclonedx --format json --spec-version 1.5 --manifest-path crates/longhaul/Cargo.toml --target "$target" \
    --override-filename longhaul.cdx --quiet
mv crates/longhaul/longhaul.cdx.json "$out/longhaul-$version-$machine.cdx.json"
# It writes one for each member of the workspace.
find crates examples -name longhaul.cdx.json -delete
cargo run --quiet --package xtask -- release --binary "$program" --out "$out"

if [ -n "${LONGHAUL_SIGNING_KEY:-}" ]; then
    minisign -S -s "$LONGHAUL_SIGNING_KEY" -m "$out/SHA256SUMS" -t "longhaul $version"
else
    echo "release: SHA256SUMS is not signed: LONGHAUL_SIGNING_KEY names no key (docs/release.md)" >&2
fi
ls -l "$out"
