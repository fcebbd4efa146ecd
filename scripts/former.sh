#!/bin/sh
# Builds the program of the former release, at target/former/longhaul: the tests of the promises between versions run it.
set -eu

cd "$(dirname "$0")/.."
former=$PWD/target/former
# The commit of tag v0.1.0: a clone may lack the tag.
commit=330b82ec5431d8ecb193da68db8df14b4abfcea5
if ! git rev-parse --quiet --verify "$commit^{commit}" >/dev/null; then
    echo "former: this clone has no commit $commit; run:  git fetch --unshallow" >&2
    exit 1
fi
mkdir -p "$former/source"
git archive "$commit" | tar --extract --directory "$former/source"
cargo build --manifest-path "$former/source/Cargo.toml" --package longhaul --target-dir "$former/build" --locked
cp "$former/build/debug/longhaul" "$former/longhaul"
echo "former: $("$former/longhaul" --version) at target/former/longhaul"
