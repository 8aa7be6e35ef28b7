#!/bin/sh
# Build stage: /opt/venv out of /build/wheels and /build/requirements.lock, without a network.
set -eu

python3 -m venv /build/tool
python3 -m venv --without-pip /opt/venv
/build/tool/bin/pip --python /opt/venv/bin/python install \
    --quiet --no-index --find-links /build/wheels --require-hashes --no-deps \
    --no-compile --no-cache-dir --disable-pip-version-check --root-user-action ignore \
    --requirement /build/requirements.lock

# Packages test themselves before they are released; their test folders are a tenth of an image.
find /opt/venv/lib -type d -name tests -path '*/site-packages/*' -prune -exec rm -rf {} +

# The file system is read-only at run time, so sources never change: their bytecode need not look at them.
# Some packages carry files for other Pythons, which do not compile: that is no failure.
/opt/venv/bin/python -m compileall -qq -j 0 --invalidation-mode unchecked-hash /opt/venv/lib || true
