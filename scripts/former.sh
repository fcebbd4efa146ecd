#!/bin/sh
# Builds the program of the former release from its tag, at target/former/longhaul: the tests of the promises between versions run it.
set -eu

cd "$(dirname "$0")/.."
former=$PWD/target/former
tag=v0.1.0
if ! git rev-parse --quiet --verify "$tag^{commit}" >/dev/null; then
    echo "former: this clone has no tag $tag; run:  git fetch --tags" >&2
    exit 1
fi
mkdir -p "$former/source"
git archive "$tag" | tar --extract --directory "$former/source"
cargo build --manifest-path "$former/source/Cargo.toml" --package longhaul --target-dir "$former/build" --locked
cp "$former/build/debug/longhaul" "$former/longhaul"
echo "former: $("$former/longhaul" --version) at target/former/longhaul"
