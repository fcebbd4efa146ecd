#!/bin/sh
# Installs what `make check-packaging` checks the chart, the compose file, the role and the packages with, and what `make image` builds with, on
# Debian and its derivatives. What is missing afterwards is named by the check, and skipped.
#
#   buildah mmdebstrap        build an image without a daemon and without a registry
#   rpmlint                   what reviewers of RPM packages look for
#   helm                      from the registry of Go: the chart
#   kubernetes-validate       from the registry of Python: the schemas of Kubernetes, which kubeconform would fetch from the network
#   ansible-core ansible-lint the role
#   check-jsonschema          the compose file: it brings that schema
set -eu

cd "$(dirname "$0")/.."
tools=$PWD/target/tools/packaging
packages="buildah mmdebstrap rpmlint"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # shellcheck disable=SC2086 -- a list of package names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
else
    echo "setup-packaging: as root, run:  apt-get install -y --no-install-recommends $packages" >&2
fi
mkdir -p "$tools"
[ -x "$tools/bin/helm" ] || GOBIN=$tools/bin go install helm.sh/helm/v3/cmd/helm@v3.16.4 ||
    echo "setup-packaging: helm cannot be installed" >&2
if [ ! -x "$tools/python/bin/ansible-lint" ]; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check \
        kubernetes-validate==1.37.0 ansible-core ansible-lint check-jsonschema==0.39.0
fi
