#!/bin/sh
# Builds the image of packaging/container/Containerfile from the Debian package in target/dist, without a daemon and without a registry: the base
# is made from Debian's packages by mmdebstrap, and buildah runs as root with chroot as its isolation. The result is target/dist/longhaul-VERSION-image.tar, an
# archive that podman, docker and skopeo load. IMAGE_FORMAT=docker-archive or oci-archive (the default).
set -eu

for tool in buildah mmdebstrap; do
    command -v "$tool" >/dev/null || { echo "image: $tool is not installed (apt-get install buildah mmdebstrap)" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "image: a base and its mounts need root" >&2; exit 2; }
cd "$(dirname "$0")/.."
dist=target/dist
package=$(ls -t "$dist"/longhaul_*.deb 2>/dev/null | head -n 1)
[ -n "$package" ] || { echo "image: there is no package in $dist; run make deb first" >&2; exit 2; }
version=$(basename "$package" | cut -d _ -f 2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Buildah's own store, so that nothing of this host's images is touched.
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
store="--root $work/store --runroot $work/run"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -n 1)
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar" "$mirror"
printf 'FROM scratch\nADD base.tar /\nCMD ["/bin/sh"]\n' >"$work/Containerfile"
# shellcheck disable=SC2086
buildah $store build --quiet --tag base "$work" >/dev/null
# shellcheck disable=SC2086
buildah $store build --quiet --pull-never --build-arg BASE=localhost/base --build-arg PACKAGE="$(basename "$package")" \
    --timestamp "$SOURCE_DATE_EPOCH" --file packaging/container/Containerfile --tag "longhaul:$version" "$dist" >/dev/null
out=$dist/longhaul-$version-image.tar
rm -f "$out"
# shellcheck disable=SC2086
buildah $store push --quiet "longhaul:$version" "${IMAGE_FORMAT:-oci-archive}:$out:longhaul:$version"
echo "$out"
