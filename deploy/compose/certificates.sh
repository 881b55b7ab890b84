#!/usr/bin/env bash
# Makes an authority and a certificate for each node named, unless they are there: certificates.sh NODE...
# Each node finds its own in a directory of its name; the key of the authority stays with root.
set -euo pipefail
tls=${SPDIST_TLS_VOLUME:-/tls} owner=${SPDIST_TLS_OWNER-10001:0}
for node in "$@"; do
    [[ ! -e $tls/authority/$node.crt ]] || continue
    make=init
    [[ ! -e $tls/authority/ca.crt ]] || make=add
    python -m spdist tls "$make" "$tls/authority" --node "$node=$node,localhost,127.0.0.1" >/dev/null
    mkdir -p "$tls/$node"
    install -m 0444 "$tls/authority/ca.crt" "$tls/$node/ca.crt"
    install -m 0444 "$tls/authority/$node.crt" "$tls/$node/tls.crt"
    install -m 0440 "$tls/authority/$node.key" "$tls/$node/tls.key"
    [[ -z $owner ]] || chown -R "$owner" "$tls/$node"
done
