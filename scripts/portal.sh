#!/bin/sh
# Builds the hub's portal into target/portal, from where `cargo build` takes it into the program. An existing portal is built again
# only if its sources have changed. Without node and npm nothing is built, and the hub's page says so.
set -eu

portal=crates/hub/portal
stamp=target/portal.stamp

if [ -e "$stamp" ] && [ -d target/portal ]; then
    changed=$(find "$portal" -name node_modules -prune -o -type f -newer "$stamp" -print)
    [ -n "$changed" ] || exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "the portal is not built: npm is not installed; the page of the hub will say so" >&2
    exit 0
fi
cd "$portal"
if ! npm ci --silent --no-fund --no-audit; then
    echo "the portal is not built: its packages cannot be downloaded; the page of the hub will say so" >&2
    exit 0
fi
npm run --silent build
cd - >/dev/null
touch "$stamp"
