#!/bin/sh
# Runs every test, and names at the end what this machine could not run: a skip a thousand lines up is a silent one.
# One test that fails does not hide what the others would have said. Arguments go to cargo test.
set -eu
cd "$(dirname "$0")/.."

kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT

# The status of a pipe is its last command's, and not every sh can say otherwise.
{
    status=0
    cargo test --no-fail-fast "$@" || status=$?
    echo "$status" >"$kept/status"
} 2>&1 | tee "$kept/output"

status=$(cat "$kept/status")
skipped=$(grep -oE 'SKIPPED:? .*' "$kept/output" || true)
if [ -n "$skipped" ]; then
    printf '\n%s skipped, because this machine cannot run them:\n%s\n' "$(printf '%s\n' "$skipped" | wc -l)" "$skipped" >&2
elif [ "$status" -eq 0 ]; then
    printf '\nnone skipped\n' >&2
fi
exit "$status"
