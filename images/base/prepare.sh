#!/bin/sh
# Final stage: accounts, folders, no setuid programs, bytecode of the standard library.
set -eu

echo 'codeact:x:10001:' >> /etc/group
echo 'supervisor:x:10001:10001::/run/s:/usr/sbin/nologin' >> /etc/passwd
echo 'agent:x:10002:10001::/workspace:/bin/sh' >> /etc/passwd

# runc gives a tmpfs the mode of the folder under it, so these are those of the container's settings:
# the supervisor owns all three; the agent may use the kernel's sockets and add to the workspace, not take away
mkdir -p /opt/sandbox /run/k /run/s /workspace
chown 10001:10001 /run/k /run/s /workspace
chmod 0700 /run/s
chmod 0770 /run/k
chmod 3770 /workspace

find / -xdev -type f -perm /6000 -exec chmod ug-s {} +

# Debian compiles it when it installs Python; the slim images of Docker leave it out.
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python3 -m compileall -qq -j 0 -x '/(test|tests|idlelib|lib2to3|site-packages|dist-packages)/' "$library"
