#!/bin/sh
# Installs what `make release` builds with, on Debian and its derivatives, below target/tools/release.
#
#   ziglang cargo-zigbuild    from the registry of Python: a linker with the symbols of older C libraries
#   cargo-auditable           writes the list of crates into the program
#   cargo-cyclonedx           writes the bill of materials
#   minisign                  signs the checksums
set -eu

cd "$(dirname "$0")/.."
tools=$PWD/target/tools/release
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    command -v minisign >/dev/null 2>&1 || { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends minisign; }
else
    command -v minisign >/dev/null 2>&1 ||
        echo "setup-release: as root, run:  apt-get install -y --no-install-recommends minisign" >&2
fi
mkdir -p "$tools"
if [ ! -x "$tools/python/bin/cargo-zigbuild" ]; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check ziglang==0.15.2 cargo-zigbuild==0.24.1
fi
[ -x "$tools/bin/cargo-auditable" ] || cargo install --quiet --locked --root "$tools" cargo-auditable@0.7.1
[ -x "$tools/bin/cargo-cyclonedx" ] || cargo install --quiet --locked --root "$tools" cargo-cyclonedx@0.5.7
