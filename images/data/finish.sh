#!/bin/sh
# Build stage, after the packages: what makes them work at once in a read-only image.
set -eu

packages=$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
compile() {
    /opt/venv/bin/python -m compileall -q -f --invalidation-mode unchecked-hash "$1"
}

# Matplotlib's font list, and a start file that has every Python of the agent copy it to where Matplotlib looks.
MPLCONFIGDIR=/opt/matplotlib /opt/venv/bin/python -c 'import matplotlib.font_manager'
chmod -R a+rX /opt/matplotlib
cp /build/font_cache.py "$packages/codeact_font_cache.py"
echo 'import codeact_font_cache' > "$packages/codeact_font_cache.pth"
compile "$packages/codeact_font_cache.py"

# pandas reads .ods with odfpy, which has no wheel; calamine reads it as well, and is here.
readers="$packages/pandas/io/excel/_util.py"
sed -i '/_default_readers = {/,/}/ s/"ods": "odf"/"ods": "calamine"/' "$readers"
grep -q '"ods": "calamine"' "$readers"
compile "$readers"
