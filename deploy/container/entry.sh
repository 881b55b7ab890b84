#!/bin/sh
# Runs spdist as whichever user the container has: `entry.sh ROLE ARGUMENTS`. Spark's JVM does not start for a user
# without a name, and clusters such as OpenShift choose a number that /etc/passwd does not have. Where that cannot be
# written, the user's name is in /tmp, where the image's /var/lib/extrausers/passwd leads to; extrausers overlooks users of
# small groups, so the number of the user stands for the group, too.
set -eu
if ! getent passwd "$(id -u)" >/dev/null; then
    echo "spdist:x:$(id -u):$(id -u)::$HOME:/usr/sbin/nologin" >/tmp/passwd
fi
exec python -m spdist "$@"
