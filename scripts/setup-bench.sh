#!/bin/sh
# Installs the peers that `make bench`, `make bench-wan` and `make bench-mirrors` compare Longhaul with, their tools and those
# of `make bench-lab`, on Debian and its derivatives. The reports name a missing peer as not installed; nothing else needs these packages.
#
#   xrootd-server xrootd-client                          xrootd, xrdcp
#   globus-gridftp-server-progs globus-gass-copy-progs   globus-gridftp-server, globus-url-copy
#   rclone iperf3
#   openssh-server openssh-client rsync openssl          sshd, scp, rsync, and certificates, for peers that encrypt
#   aria2                                                aria2c, for bench-mirrors
#   diffutils iproute2 util-linux                        the bench's own: diff; ip; unshare, findmnt, setpriv
#
# FDT is in no distribution: download its jar, install a Java runtime, and run `make bench BENCH="--fdt-jar FILE"` or
# `make bench-wan BENCH="--fdt FILE"`.
set -eu

packages="xrootd-server xrootd-client globus-gridftp-server-progs globus-gass-copy-progs rclone iperf3 aria2 openssh-server
openssh-client rsync openssl diffutils iproute2 util-linux"
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "setup-bench: as root, run:  apt-get install -y --no-install-recommends" $packages >&2
    exit 1
fi
apt-get update -qq
# No server must start by itself: the bench starts its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# shellcheck disable=SC2086 -- a list of package names
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
