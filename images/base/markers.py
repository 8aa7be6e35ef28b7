"""Prints the PEP 508 marker environment of the Python that runs it, as JSON: it decides which wheels fit."""

import json
import os
import platform
import sys

print(
    json.dumps(
        {
            "implementation_name": sys.implementation.name,
            "implementation_version": platform.python_version(),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": "",
            "platform_system": platform.system(),
            "platform_version": "",
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        }
    )
)
