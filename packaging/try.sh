#!/bin/sh
# Tests the package on a separate system: the files of this host below an overlay, a real systemd as the first process, namespaces
# for everything else. The test installs the package, starts, queries, reloads and upgrades the node during a transfer, kills it, removes
# and purges the package, and checks which files remain. Nothing on this host changes. As root:
#
#   packaging/try.sh FIRST.deb LATER.deb            (cargo xtask try-deb builds both)
#   packaging/try.sh --scripts FIRST.deb LATER.deb  only the package's scripts, without systemd: takes seconds
#
# TRY_ROOT=DIR takes the files of another system below DIR instead of this host's (scripts/try-release.sh).
set -eu

# Stages: outside runs on this host; --boot and --chroot prepare the system in the namespaces; --inside and
# --scripted run in that system.
stage=${1:-}
self=$(readlink -f "$0")

# --- outside ---------------------------------------------------------------------------------------------------------

outside() {
    [ $# = 2 ] || { echo "usage: try.sh FIRST.deb LATER.deb" >&2; exit 2; }
    [ "$(id -u)" = 0 ] || { echo "try: namespaces and mounts need root" >&2; exit 2; }
    for tool in unshare pivot_root dpkg ip setpriv; do
        command -v "$tool" >/dev/null || { echo "try: $tool is not installed" >&2; exit 2; }
    done
    [ -x /lib/systemd/systemd ] || { echo "try: systemd is not installed (apt-get install systemd)" >&2; exit 2; }
    work=$(mktemp -d)
    mkdir "$work/mem" "$work/log"
    trap 'rm -rf "$work"' EXIT
    : >"$work/log/out"
    tail -n +1 -f "$work/log/out" &
    follow=$!
    # Everything inside ends with the first process.
    code=0
    unshare --mount --propagation private --pid --net --uts --ipc --cgroup --fork --kill-child \
        sh "$self" --boot "$work" "$(readlink -f "$1")" "$(readlink -f "$2")" >"$work/log/boot" 2>&1 || code=$?
    sleep 1
    kill "$follow"
    wait "$follow" 2>/dev/null || true
    if [ "$code" != 0 ]; then
        echo "--- the first process ended with $code, and printed:" >&2
        tail -n 40 "$work/log/boot" >&2
        [ ! -e "$work/log/journal" ] || { echo "--- the journal:" >&2; tail -n 80 "$work/log/journal" >&2; }
    fi
    exit "$code"
}

# --- boot ------------------------------------------------------------------------------------------------------------

boot() {
    system "$@"
    units "$root/etc/systemd/system"
    hostname try
    ip link set lo up
    cd "$root"
    mkdir .old
    pivot_root . .old
    umount -l /.old
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=try \
        /lib/systemd/systemd --system --unit=try.target --log-level=notice --log-target=journal --show-status=no \
        <dev/null >/try/log/first 2>&1
}

# WORK FIRST LATER: a system of its own below $root.
system() {
    work=$1 first=$2 later=$3
    mem=$work/mem root=$work/mem/root
    mount -t tmpfs -o mode=0755 tmpfs "$mem"
    mkdir "$root" "$mem/up" "$mem/workdir"
    # The files of that system are read-only below the overlay; writes go into memory.
    mount -t overlay -o "lowerdir=${TRY_ROOT:-/},upperdir=$mem/up,workdir=$mem/workdir" overlay "$root"
    mkdir -p "$root/try/log"
    mount --bind "$work/log" "$root/try/log"
    cp "$self" "$root/try/try.sh"
    cp "$first" "$root/try/first.deb"
    cp "$later" "$root/try/later.deb"
    mount -t proc proc "$root/proc"
    if mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null; then
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    fi
    mount -t tmpfs -o mode=0755 tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mknod -m 666 "$root/dev/null" c 1 3
    mknod -m 666 "$root/dev/zero" c 1 5
    mknod -m 666 "$root/dev/full" c 1 7
    mknod -m 666 "$root/dev/random" c 1 8
    mknod -m 666 "$root/dev/urandom" c 1 9
    mknod -m 666 "$root/dev/tty" c 5 0
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    # A policy that keeps services from starting on this host must not apply in the test.
    rm -f "$root/usr/sbin/policy-rc.d"
    # Settings of dpkg that leave out parts of packages must not apply either: container images have them.
    rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
    # The state of a node that was started by hand on this host belongs to another user: it is removed here.
    rm -rf "$root/var/lib/longhaul" "$root/var/lib/longhaul-hub" "$root/var/lib/longhaul-watch" "$root/etc/longhaul"
    # No index of manuals: it takes longer than all the rest.
    rm -f "$root/var/lib/man-db/auto-update"
}

# The units that systemd starts: the test and its basic dependencies, and no other unit of this host.
units() {
    mkdir -p "$1"
    cat >"$1/try.target" <<UNIT
[Unit]
Description=A system to try the package on
Requires=basic.target dbus.socket
Wants=try.service
After=basic.target
AllowIsolate=yes
UNIT
    cat >"$1/try.service" <<UNIT
[Unit]
Description=The trial
After=basic.target
SuccessAction=exit
SuccessActionExitStatus=0
FailureAction=exit
FailureActionExitStatus=1

[Service]
Type=oneshot
ExecStart=/bin/sh /try/try.sh --inside
StandardOutput=append:/try/log/out
StandardError=append:/try/log/out
TimeoutStartSec=600
UNIT
    for unit in systemd-udevd systemd-udev-trigger systemd-networkd systemd-resolved systemd-timesyncd systemd-logind; do
        ln -sf /dev/null "$1/$unit.service"
    done
}

# --- inside ----------------------------------------------------------------------------------------------------------

step() { echo "== $*"; }
fail() {
    echo "FAILED: $*"
    journalctl --no-pager >/try/log/journal 2>&1 || true
    exit 1
}
# NAME COMMAND...: the command must succeed.
must() {
    what=$1
    shift
    "$@" >/tmp/output 2>&1 || { cat /tmp/output; fail "$what: $*"; }
}
# WANTED NAME COMMAND...: it must print this.
same() {
    wanted=$1 what=$2
    shift 2
    got=$("$@" 2>&1) || true
    [ "$got" = "$wanted" ] || fail "$what: $got, not $wanted"
}
# Waits until a command succeeds, for two minutes at most.
until_holds() {
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || fail "waited in vain until $what: $(cat /tmp/node 2>/dev/null)"
        sleep 0.1
    done
}
# Runs a command as an ordinary user with a separate state directory.
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups env LONGHAUL_STATE=/tmp/user/state LONGHAUL_KEY="$key" "$@"; }
main_pid() { systemctl show --property=MainPID --value longhaul; }
status_text() { systemctl show --property=StatusText --value longhaul; }
arrived() { cat /srv/data/.longhaul-*.part 2>/dev/null | wc -c; }
more_than() { [ "$(arrived)" -gt "$1" ]; }
settings() {
    printf '%s\n' "$@" >/etc/longhaul/longhaul.toml
}
# Lists files named after Longhaul in the directories that packages use.
footprint() {
    find /etc /usr /var /lib/systemd -xdev -not -path '/var/lib/dpkg/*' -not -path '/var/cache/*' -iname '*longhaul*' 2>/dev/null | sort
}

# A copy that the node carries to another node, so that the node has to connect to it.
carried() {
    ip address add 192.0.2.1/32 dev lo
    mkdir /tmp/user/in /tmp/user/other
    chown 65534:65534 /tmp/user/in /tmp/user/other
    as_user longhaul serve --listen 192.0.2.1:7412 --export in=/tmp/user/in:rw --state /tmp/user/other >/tmp/other 2>&1 &
    other=$!
    until_holds "another node listens" grep -q listening /tmp/other
    mine=$key
    key=$mine,$(as_user longhaul grant --export in --write --state /tmp/user/other 2>/dev/null | tail -n 1)
    # The other node is on the same machine, which the policy of a node excludes.
    printf '[third_party]\nlocal = true\n' >/var/lib/longhaul/access.toml
    until_holds "a copy to another node" as_user longhaul cp "$node/data/small" lh://192.0.2.1:7412/in/small
    : >/var/lib/longhaul/access.toml
    must "whole" cmp /tmp/user/small /tmp/user/in/small
    key=$mine
    kill "$other"
}

inside() {
    key= node=lh://127.0.0.1
    until_holds "systemd is up" sh -c 'systemctl is-system-running | grep -Eq "running|degraded|starting"'
    mkdir -p /srv/data /tmp/user
    chown 65534:65534 /tmp/user
    footprint >/tmp/before

    step "installing"
    must "the package installs" dpkg --install /try/first.deb
    same "" "dpkg finds every file as it was packed" dpkg --verify longhaul
    same active "the node was started" systemctl is-active longhaul
    same enabled "it comes back after a reboot" systemctl is-enabled longhaul
    same "listening on [::]:7411" "systemd knows where it listens" status_text
    same longhaul "the node runs as its own user" stat -c %U "/proc/$(main_pid)"
    same "longhaul:longhaul 700" "only that user may read the state" stat -c "%U:%G %a" /var/lib/longhaul
    code=0
    longhaul ls "$node/" >/tmp/output 2>&1 || code=$?
    [ "$code" = 4 ] || fail "no client has a key yet, but ls ended with $code: $(cat /tmp/output)"
    must "the unit is sound" systemd-analyze verify /usr/lib/systemd/system/longhaul.service
    same "" "without warnings" cat /tmp/output
    systemd-analyze security --no-pager longhaul.service | tail -n 1

    step "first settings"
    chown longhaul: /srv/data
    settings 'export = ["data=/srv/data:rw"]' 'audit = true' 'responders = ["stamp", "iperf3"]'
    systemctl restart longhaul
    must "the log says why nothing can be written" sh -c \
        'journalctl --unit longhaul --no-pager | grep "nothing can be written" | grep -q "Read-only file system"'
    mkdir -p /etc/systemd/system/longhaul.service.d
    # During the test a forbidden system call ends the node instead of failing, so that it cannot go unnoticed.
    printf '%s\n' '[Service]' 'RestrictSUIDSGID=yes' >/etc/systemd/system/longhaul.service.d/try.conf
    systemctl daemon-reload
    systemctl restart longhaul 2>/dev/null && fail "without openat2 the node cannot keep to its exports, and started"
    must "it says what it lacks" sh -c 'journalctl --unit longhaul --no-pager | grep -q "openat2 is missing"'
    printf '%s\n' '[Service]' 'ReadWritePaths=/srv/data' 'SystemCallErrorNumber=kill' \
        >/etc/systemd/system/longhaul.service.d/try.conf
    systemctl daemon-reload
    must "the node starts with a drop-in" systemctl restart longhaul
    key=$(longhaul grant --export data --write --for 1h 2>/dev/null | tail -n 1)
    same "longhaul 600" "the node may read the grants that root wrote" stat -c "%U %a" /var/lib/longhaul/grants.toml

    step "what nodes do, within the unit's bounds"
    head -c 3000000 /dev/urandom >/tmp/user/small
    setfattr -n user.note -v kept /tmp/user/small 2>/dev/null || echo "(no extended attributes here)"
    chown 65534:65534 /tmp/user/small
    pid=$(main_pid)
    must "a copy with attributes" as_user longhaul cp --xattrs --durable /tmp/user/small "$node/data/small"
    must "and back" as_user longhaul cp "$node/data/small" /tmp/user/back
    must "whole" cmp /tmp/user/small /tmp/user/back
    must "another congestion control" as_user longhaul cp --congestion reno /tmp/user/small "$node/data/reno"
    must "digests" as_user longhaul digest --checksum md5,blake3 "$node/data/small"
    must "a test of the path" as_user longhaul probe tcp "$node" --time 1s
    must "a test of the disk" as_user longhaul probe disk "$node/data" --time 1s --tests write,read,fsync \
        --file-size 4MiB --workers 1 --budget 256MiB
    must "round trips" as_user longhaul probe latency "$node" -n 20 --rate 100
    must "round trips to a STAMP responder" as_user longhaul probe latency "stamp://127.0.0.1:7411" -n 20 --rate 100
    must "datagrams" as_user longhaul probe udp "$node" --rate 10Mbit/s --time 1s
    must "hops and MTU" as_user longhaul probe path "$node" --probes 10
    must "the audit" as_user longhaul tune compare "$node" "$node"
    must "HTTP" curl --silent --show-error --fail --insecure --header "Authorization: Bearer $key" \
        --upload-file /tmp/user/small https://127.0.0.1:7411/data/http
    must "digests over HTTP" sh -c "curl --silent --fail --insecure --head --header 'Authorization: Bearer $key' \
        --header 'Want-Digest: adler32' https://127.0.0.1:7411/data/http | grep -qi '^digest: adler32='"
    printf '#!/bin/sh\ncat >/dev/null\necho "{\\"allow\\":true}"\n' >/usr/local/bin/may
    chmod 755 /usr/local/bin/may
    printf '[callout]\ncommand = ["/usr/local/bin/may"]\n' >/var/lib/longhaul/access.toml
    until_holds "an authorization program admits a client" curl --silent --fail --insecure --output /dev/null \
        https://127.0.0.1:7411/data/http
    carried
    same "$pid" "all of it by one process, which nothing killed" main_pid

    step "new settings during a transfer"
    head -c 60000000 /dev/urandom >/tmp/user/large
    chown 65534:65534 /tmp/user/large
    as_user longhaul cp --limit 32Mbit/s --json /tmp/user/large "$node/data/large" >/tmp/user/receipt 2>/tmp/user/err &
    copy=$!
    until_holds "some of it is there" more_than 4000000
    mkdir /srv/more
    settings 'export = ["data=/srv/data:rw", "more=/srv/more"]' 'anonymous = "ro"'
    must "a reload" systemctl reload longhaul
    until_holds "the new export is offered" sh -c 'LONGHAUL_STATE=/tmp/nobody longhaul ls lh://127.0.0.1/ | grep -q more'
    same "$pid" "by the same process" main_pid
    settings 'export = ["data=/srv/data:rw"' 'anonymous = "ro"'
    must "another reload" systemctl reload longhaul
    until_holds "systemd knows that it was refused" sh -c 'systemctl show --property=StatusText longhaul | grep -q refused'
    must "the log says so in one line" sh -c \
        'test "$(journalctl --unit longhaul --no-pager | grep -c "new settings are refused")" = 1'
    must "the former settings stay in force" sh -c 'LONGHAUL_STATE=/tmp/nobody longhaul ls lh://127.0.0.1/ | grep -q more'
    settings 'export = ["data=/srv/data:rw"]'
    must "a good one again" systemctl reload longhaul
    kill -0 "$copy" || fail "the transfer ended: $(cat /tmp/user/err)"
    [ "$(grep -c 'trying again' /tmp/user/err || true)" = 0 ] || fail "a reload broke the transfer: $(cat /tmp/user/err)"

    step "upgrading during the same transfer"
    before=$(arrived)
    must "the later package installs" dpkg --install --force-confold /try/later.deb
    same active "the node runs" systemctl is-active longhaul
    [ "$(main_pid)" != "$pid" ] || fail "the node was not restarted"
    kill -0 "$copy" || fail "the transfer was over before the upgrade: $before bytes, $(cat /tmp/user/err)"
    same 'export = ["data=/srv/data:rw"]' "settings stay" cat /etc/longhaul/longhaul.toml
    wait "$copy" || fail "the transfer did not survive the upgrade: $(cat /tmp/user/err)"
    must "it is whole" cmp /tmp/user/large /srv/data/large
    must "the upgrade broke it, and it went on by itself" grep -q "trying again" /tmp/user/err
    tail -n 1 /tmp/user/receipt | grep -o '"bytes":[0-9]*\|"resumed_bytes":[0-9]*\|"resent_bytes":[0-9]*\|"seconds":[0-9.]*' \
        | head -n 4 | tr '\n' ' '
    echo "(of 60000000 bytes, $before were there when the upgrade began)"

    step "a node that dies is started again"
    pid=$(main_pid)
    kill -9 "$pid"
    until_holds "it is back" sh -c "test \"\$(systemctl show --property=MainPID --value longhaul)\" -gt 0 -a \
        \"\$(systemctl show --property=MainPID --value longhaul)\" != $pid && systemctl is-active longhaul"
    must "and serves" as_user longhaul ls "$node/data"

    step "a support archive"
    cd /tmp
    must "support" longhaul support --out /tmp/dump.tar.gz
    same "root 600" "only root may read it" stat -c "%U %a" /tmp/dump.tar.gz
    must "with the log" sh -c 'tar --extract --gzip --to-stdout --wildcards --file /tmp/dump.tar.gz "*/log.txt" | grep -q "new settings are refused"'
    must "without the key" sh -c "! tar --extract --gzip --to-stdout --file /tmp/dump.tar.gz | grep -q '${key#lhk1_}'"

    step "what an administrator stopped stays stopped"
    systemctl stop longhaul
    must "the package installs again" dpkg --install --force-confold /try/later.deb
    same inactive "it was stopped" systemctl is-active longhaul
    systemctl start longhaul

    step "removing, and installing again"
    must "it is removed" dpkg --remove longhaul
    [ ! -e /usr/bin/longhaul ] || fail "the program is still there"
    [ -e /etc/longhaul/longhaul.toml ] && [ -e /var/lib/longhaul/identity.key.der ] || fail "settings or state are gone"
    must "nobody listens" sh -c '! ss --tcp --listening --numeric | grep -q :7411'
    must "it installs" dpkg --install --force-confold /try/later.deb
    same active "it runs" systemctl is-active longhaul
    must "keys count as before" as_user longhaul ls "$node/data"

    step "a hub and a watch beside the node"
    must "the watch listens at a port of its own" sh -c \
        'mkdir -p /etc/systemd/system/longhaul-watch.service.d && printf "%s\n" "[Service]" "ExecStart=" \
        "ExecStart=/usr/bin/longhaul watch serve --config /etc/longhaul/watch.toml --listen [::]:8447" \
        >/etc/systemd/system/longhaul-watch.service.d/try.conf && systemctl daemon-reload'
    for unit in longhaul-hub longhaul-watch; do
        same disabled "$unit waits for the administrator" systemctl is-enabled "$unit"
        must "$unit starts" systemctl enable --now "$unit"
        must "$unit is restricted" sh -c "systemd-analyze security --no-pager $unit.service | tail -n 1"
        tail -n 1 /tmp/output
        same "longhaul-hub:longhaul-hub 700" "only its user may read its state" stat -c "%U:%G %a" "/var/lib/$unit"
    done
    admin=$(setpriv --reuid longhaul-hub --regid longhaul-hub --clear-groups \
        longhaul --state /var/lib/longhaul-hub hub grant --role admin --name root 2>/dev/null | tail -n 1)
    must "the hub admits its admin" env LONGHAUL_STATE=/tmp/admin LONGHAUL_KEY="$admin" LONGHAUL_HUB=https://127.0.0.1:8446 \
        longhaul hub site add cern
    must "the watch answers" curl --silent --fail --insecure --output /dev/null https://127.0.0.1:8447/api/v1/openapi.json
    must "the hub reads its file again" systemctl reload longhaul-hub
    must "the package installs again" dpkg --install --force-confold /try/later.deb
    for unit in longhaul-hub longhaul-watch; do
        same active "$unit runs after an upgrade" systemctl is-active "$unit"
    done

    step "purging"
    must "it is purged" dpkg --purge longhaul
    must "nobody listens" sh -c '! ss --tcp --listening --numeric | grep -q :7411'
    must "files of exports stay" cmp /tmp/user/large /srv/data/large
    must "the user stays" getent passwd longhaul
    footprint | comm -13 /tmp/before - >/tmp/left
    same "/etc/systemd/system/longhaul-watch.service.d
/etc/systemd/system/longhaul.service.d" "of all files an administrator's drop-ins are left" cat /tmp/left
    echo "PASSED: installed, started, reloaded, upgraded during a transfer, killed, removed, purged"
}

# --- without systemd -------------------------------------------------------------------------------------------------

scripts() {
    [ $# = 2 ] || { echo "usage: try.sh --scripts FIRST.deb LATER.deb" >&2; exit 2; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/mem" "$work/log"
    code=0
    unshare --mount --propagation private --pid --net --fork --kill-child \
        sh "$self" --chroot "$work" "$(readlink -f "$1")" "$(readlink -f "$2")" || code=$?
    exit "$code"
}

in_chroot() {
    system "$@"
    ip link set lo up
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh /try/try.sh --scripted
}

# Tests the scripts where no systemd runs: in images, in containers.
scripted() {
    key=
    footprint >/tmp/before
    must "the package installs" dpkg --install /try/first.deb
    same "" "dpkg finds every file as it was packed" dpkg --verify longhaul
    same "/var/lib/longhaul:/usr/sbin/nologin" "the user is there" sh -c 'getent passwd longhaul | cut -d: -f6,7'
    for dir in . issuers journals paths run unfinished; do
        same "longhaul:longhaul 700" "only that user may read $dir" stat -c "%U:%G %a" "/var/lib/longhaul/$dir"
    done
    for dir in longhaul-hub longhaul-watch; do
        same "longhaul-hub:longhaul-hub 700" "only the hub's user may read $dir" stat -c "%U:%G %a" "/var/lib/$dir"
    done
    [ -L /etc/systemd/system/multi-user.target.wants/longhaul.service ] || fail "the node is not enabled"
    must "the manual is found" test -e /usr/share/man/man1/longhaul-serve.1.gz

    # The settings as they come, by the user of the node, with a port that is free for sure.
    export LONGHAUL_STATE=/var/lib/longhaul
    setpriv --reuid longhaul --regid longhaul --clear-groups longhaul serve --config /etc/longhaul/longhaul.toml \
        --listen 127.0.0.1:0 --export data=/srv:rw >/tmp/address 2>/tmp/node &
    pid=$!
    until_holds "the node listens" grep -q listening /tmp/address
    must "it says that nothing can be written" grep -q "nothing can be written" /tmp/node
    chown longhaul: /srv
    key=$(longhaul grant --export data --write 2>/dev/null | tail -n 1)
    same "longhaul 600" "the node may read the grants that root wrote" stat -c "%U %a" /var/lib/longhaul/grants.toml
    mkdir /tmp/user
    chown 65534:65534 /tmp/user
    must "a copy" as_user longhaul cp /etc/debian_version "lh://$(sed 's/listening on //' /tmp/address)/data/f"
    must "whole" cmp /etc/debian_version /srv/f
    kill "$pid"
    wait "$pid" || fail "the node ended badly: $(cat /tmp/node)"

    echo "# changed here" >>/etc/longhaul/longhaul.toml
    must "the later package installs" dpkg --install --force-confold /try/later.deb
    must "settings stay" grep -q "changed here" /etc/longhaul/longhaul.toml
    must "grants stay" test -s /var/lib/longhaul/grants.toml
    must "it is removed" dpkg --remove longhaul
    [ ! -e /usr/bin/longhaul ] || fail "the program is still there"
    [ -e /etc/longhaul/longhaul.toml ] && [ -e /var/lib/longhaul/identity.key.der ] || fail "settings or state are gone"
    must "it installs again" dpkg --install --force-confold /try/later.deb
    must "it is purged" dpkg --purge longhaul
    footprint | comm -13 /tmp/before - >/tmp/left
    same "" "of all files nothing is left" cat /tmp/left
    must "files of exports stay" cmp /etc/debian_version /srv/f
    must "the user stays" getent passwd longhaul
    echo "PASSED: the scripts"
}

case "$stage" in
--scripts) shift; scripts "$@" ;;
--chroot) shift; in_chroot "$@" ;;
--scripted) scripted ;;
--boot) shift; boot "$@" ;;
--inside) inside ;;
*) outside "$@" ;;
esac
