#!/bin/sh
# Builds what is published of this commit, into target/release-files: the program against the C library 2.28, packages of it, its symbols, the
# list of its crates, checksums, and their signature if LONGHAUL_SIGNING_KEY names a key of minisign(1). The same commit gives
# the same bytes, wherever its clone and Cargo's directory are. scripts/setup-release.sh installs the tools.
set -eu

cd "$(dirname "$0")/.."
target=${TARGET:-x86_64-unknown-linux-gnu}

# --- outside: what must be there; then this script again, where all paths are the same -------------------------------

outside() {
    tools=$PWD/target/tools/release
    for tool in "$tools/bin/cargo-auditable" "$tools/bin/cargo-cyclonedx" "$tools/python/bin/cargo-zigbuild"; do
        [ -x "$tool" ] || { echo "release: $tool is missing; run:  sh scripts/setup-release.sh" >&2; exit 1; }
    done
    if [ -n "$(git status --porcelain)" ]; then
        echo "release: this clone has changes that are not committed; nobody else can build this release" >&2
        [ "${LONGHAUL_RELEASE_DIRTY:-}" = yes ] || exit 1
    fi
    sh scripts/portal.sh
    [ -e target/portal/index.html.gz ] || { echo "release: the portal is not built; install node and npm" >&2; exit 1; }
    if [ -n "${LONGHAUL_SIGNING_KEY:-}" ]; then
        LONGHAUL_SIGNING_KEY=$(readlink -f "$LONGHAUL_SIGNING_KEY")
        export LONGHAUL_SIGNING_KEY
    fi
    # Paths are in names of symbols (Cargo hashes that of cargo-auditable into those of our crates), in procedural macros, which no flag of
    # this build reaches, and in the bill of materials. So this clone is at /mnt and Cargo's directory at /media, for this build alone.
    cargo=${CARGO_HOME:-$HOME/.cargo}
    [ "$(id -u)" = 0 ] && may_mount= || may_mount=--map-root-user
    exec unshare $may_mount --mount sh -eu -c '
        mount --bind "$1" /mnt
        mount --bind "$2" /media
        cd /mnt
        CARGO_HOME=/media exec sh scripts/release.sh --inside' sh "$PWD" "$cargo"
}

# --- inside ----------------------------------------------------------------------------------------------------------

inside() {
    tools=/mnt/target/tools/release
    out=target/release-files
    PATH=$tools/bin:$tools/python/bin:$PATH
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export PATH SOURCE_DATE_EPOCH
    program=target/release-build/$target/release/longhaul
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    rm -rf "$out"
    mkdir -p "$out"
    build
    bill_of_materials "$out/longhaul-$version-${target%%-*}.cdx.json"
    cargo run --quiet --package xtask --target-dir target/release-tools -- release --binary "$PWD/$program" --out "$PWD/$out"
    if [ -n "${LONGHAUL_SIGNING_KEY:-}" ]; then
        minisign -S -s "$LONGHAUL_SIGNING_KEY" -m "$out/SHA256SUMS" -t "longhaul $version"
    else
        echo "release: SHA256SUMS is not signed: LONGHAUL_SIGNING_KEY names no key (docs/release.md)" >&2
    fi
    ls -l "$out"
}

# The program. Paths in messages of panics, in line tables and in assertions of C say what they are.
build() {
    RUSTFLAGS="--remap-path-prefix=/mnt=/longhaul --remap-path-prefix=/media=/cargo -C link-arg=-Wl,--build-id=sha1" \
        CFLAGS="-ffile-prefix-map=/mnt=/longhaul -ffile-prefix-map=/media=/cargo" \
        cargo auditable zigbuild --release --locked --package longhaul --target "$target.2.28" --target-dir target/release-build
}

# FILE: the list of crates, without the time and the random number of this run.
bill_of_materials() {
    cargo cyclonedx --format json --spec-version 1.5 --manifest-path crates/longhaul/Cargo.toml --target "$target" \
        --override-filename longhaul.cdx --quiet
    time=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    # A UUID that is made of the commit (version 8, RFC 9562).
    serial=$(git rev-parse HEAD | sed 's/^\(.\{8\}\)\(.\{4\}\)\(.\{3\}\)\(.\{3\}\)\(.\{12\}\).*/\1-\2-8\3-8\4-\5/')
    sed -e "s|^  \"serialNumber\": .*|  \"serialNumber\": \"urn:uuid:$serial\",|" -e "s|^    \"timestamp\": .*|    \"timestamp\": \"$time\",|" \
        -e 's|file:///mnt/|file:///longhaul/|g' crates/longhaul/longhaul.cdx.json >"$1"
    # It writes one for each member of the workspace.
    find crates examples -name longhaul.cdx.json -delete
}

case "${1:-}" in
--inside) inside ;;
*) outside ;;
esac
