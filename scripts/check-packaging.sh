#!/bin/sh
# Checks what is shipped beside the program: the chart, the compose file, the role, and the RPM package and the image if they are in target/dist. What cannot be
# checked, because scripts/setup-packaging.sh has not installed the tool for it, is skipped and counted at the end. With --sources, packages
# and images are left out.
set -eu

cd "$(dirname "$0")/.."
tools=$PWD/target/tools/packaging
PATH=$tools/bin:$tools/python/bin:$PATH
export PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# WHAT TOOL COMMAND...
check() {
    what=$1 tool=$2
    shift 2
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "skipped: $what ($tool is not installed)"
        skipped=$((skipped + 1))
    elif "$@" >"$work/output" 2>&1; then
        echo "ok: $what"
        passed=$((passed + 1))
    else
        echo "FAILED: $what"
        cat "$work/output"
        failed=$((failed + 1))
    fi
}

chart=packaging/helm/longhaul
# VERSION OPTION...: what the chart renders has the schemas of this version of Kubernetes.
rendered() {
    version=$1
    shift
    # Within a condition the shell does not stop at a failure by itself.
    helm template site "$chart" --kube-version "$version" "$@" >"$work/chart.yaml" && [ -s "$work/chart.yaml" ] || return
    kubernetes-validate --strict --kubernetes-version "$version" "$work/chart.yaml"
}
check "the chart: helm lint" helm helm lint --strict "$chart"
for version in 1.25.0 1.34.0; do
    check "the chart as it comes: schemas of Kubernetes $version" kubernetes-validate rendered "$version"
    check "the chart, nodes alone with the host's network: schemas of Kubernetes $version" kubernetes-validate rendered "$version" \
        --set hub.enabled=false --set node.hostNetwork=true --set node.data.existingClaim=data
done
check "the chart with a database of the site: schemas of Kubernetes" kubernetes-validate rendered 1.34.0 \
    --set database.enabled=false --set database.existingSecret=hub-database --set hub.databaseUrl=postgres://hub@db.example/hub
check "the compose file: its schema" check-jsonschema \
    check-jsonschema --builtin-schema vendor.compose-spec packaging/compose/compose.yaml

cat >"$work/site.yaml" <<PLAYBOOK
---
- name: Nodes
  hosts: localhost
  connection: local
  roles:
    - role: longhaul_node
      vars:
        longhaul_node_exports: [{name: data, path: /srv/data}, {name: inbox, path: /srv/inbox, writable: true}]
        longhaul_node_rate: 10Gbit/s
PLAYBOOK
export ANSIBLE_ROLES_PATH=$PWD/packaging/ansible/roles ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false
check "the role: its syntax" ansible-playbook ansible-playbook --syntax-check "$work/site.yaml"
check "the role: ansible-lint" ansible-lint ansible-lint --offline --nocolor --profile production packaging/ansible/roles/longhaul_node

summary() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
if [ "${1:-}" = --sources ]; then
    summary
    exit
fi

for package in target/dist/*.rpm; do
    [ -e "$package" ] || { echo "skipped: rpmlint (there is no package: make rpm)"; skipped=$((skipped + 1)); continue; }
    check "$package: rpmlint" rpmlint rpmlint --config packaging/rpm/rpmlint.toml "$package"
done

# The image runs as its own user, without a capability.
image_runs() {
    store="--root $work/store --runroot $work/run"
    export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
    # shellcheck disable=SC2086
    container=$(buildah $store from "oci-archive:$1") || return
    # shellcheck disable=SC2086
    buildah $store run --cap-drop all "$container" -- sh -c 'longhaul --version && test "$(id -u)" = 7411 && longhaul grant list'
}
for image in target/dist/*-image.tar; do
    [ -e "$image" ] || { echo "skipped: the image (there is none: make image)"; skipped=$((skipped + 1)); continue; }
    check "$image runs" buildah image_runs "$image"
done
summary
