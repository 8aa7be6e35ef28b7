#!/bin/sh
# Builds Matplotlib's font list, and has every Python of the agent copy it to where Matplotlib looks.
set -eu

MPLCONFIGDIR=/opt/matplotlib /opt/venv/bin/python -c 'import matplotlib.font_manager'
chmod -R a+rX /opt/matplotlib
packages=$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp /build/font_cache.py "$packages/codeact_font_cache.py"
echo 'import codeact_font_cache' > "$packages/codeact_font_cache.pth"
/opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash "$packages/codeact_font_cache.py"
