#!/bin/sh
# Tries the package of `make release` on Debian 11, the oldest system that is still distributed: its C library is 2.31, where the program asks for
# 2.28. mmdebstrap makes that system's files; packaging/try.sh installs, starts, queries, upgrades, removes and purges. As root.
set -eu

cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "try-release: another system's files and its namespaces need root" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "try-release: mmdebstrap is not installed (apt-get install mmdebstrap)" >&2; exit 2; }
package=$(ls -t target/release-files/longhaul_*.deb 2>/dev/null | head -n 1)
[ -n "$package" ] || { echo "try-release: there is no package in target/release-files; run make release first" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -n 1)
mmdebstrap --quiet --variant=minbase bullseye "$work/system" "$mirror"
echo "try-release: $(chroot "$work/system" ldd --version | head -n 1)"
TRY_ROOT=$work/system sh packaging/try.sh --scripts "$package" "$package"
