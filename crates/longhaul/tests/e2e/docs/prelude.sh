# Runs before each block: restores the environment that the last block on this machine left, and names a command that fails.
set -e -o pipefail
trap 'code=$?; echo "exit code $code of: $BASH_COMMAND" >&2' ERR
[ ! -e "$WORLD/$MACHINE.env" ] || . "$WORLD/$MACHINE.env"
tree() {
    mkdir -p "$1/sub" && head -c "${2:-2M}" /dev/urandom > "$1/large" && echo small > "$1/sub/small"
}
