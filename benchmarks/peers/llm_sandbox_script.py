"""Times llm-sandbox: run by its own interpreter with engine, image, starts and runs; prints one JSON object."""

import json
import statistics
import sys
import time

import docker
from llm_sandbox import SandboxSession  # type: ignore[import-not-found]

engine, image, starts, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = docker.DockerClient(base_url=engine)


def session() -> SandboxSession:
    settings = {"command": ["sleep", "600"], "network_mode": "none"}
    return SandboxSession(
        client=client,
        image=image,
        lang="python",
        keep_template=True,
        skip_environment_setup=True,
        runtime_configs=settings,
    )


cold, empty = [], []
for _ in range(starts):
    began = time.perf_counter()
    with session() as box:
        assert box.run("print(6 * 7)").stdout.strip() == "42"
        cold.append(time.perf_counter() - began)
with session() as box:
    for _ in range(runs):
        began = time.perf_counter()
        box.run("")
        empty.append(time.perf_counter() - began)
print(json.dumps({"cold_start": statistics.median(cold), "empty": statistics.median(empty)}))
