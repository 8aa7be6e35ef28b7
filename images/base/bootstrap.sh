#!/bin/sh
# Writes a root file system with Python, out of Debian packages, to the tar file $1:
# the base where no image registry answers. Needs mmdebstrap; needs no root where user namespaces work.
set -eu

export SOURCE_DATE_EPOCH=0
exec mmdebstrap --quiet --variant=essential --format=tar \
    --include=python3,python3-venv,libstdc++6 \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --customize-hook='find "$1" -xdev -type f -perm /6000 -exec chmod ug-s {} +' \
    --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/lib/apt "$1"/var/log/*' \
    bookworm "$1"
