#!/usr/bin/env bash
# Makes a base for the Containerfile of Debian's packages alone, where no registry of images can be reached (as root):
#
#   apt-get install --yes mmdebstrap buildah podman
#   deploy/container/debian-base.sh localhost/debian-python && make image BASE=localhost/debian-python
#
# Authorities in /usr/local/share/ca-certificates, such as a proxy's, are trusted in it, too.
set -euo pipefail
name=${1:?debian-base.sh IMAGE} suite=${2:-bookworm}
read -ra buildah <<<"${BUILDAH:-buildah}"
made=$(mktemp --directory)
trap 'rm -rf "$made"' EXIT
mmdebstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv "$suite" "$made/root.tar"
container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add "$container" "$made/root.tar" /
"${buildah[@]}" copy "$container" /usr/local/share/ca-certificates /usr/local/share/ca-certificates
# Debian keeps pip from its own Python; in this image there is no other program that uses it.
"${buildah[@]}" run --isolation chroot "$container" -- sh -c \
    'update-ca-certificates && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s /usr/bin/python3 /usr/local/bin/python'
"${buildah[@]}" commit --rm "$container" "$name"
