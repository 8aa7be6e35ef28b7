"""Times ipybox: run by its own interpreter with starts and runs; prints one JSON object."""

import asyncio
import json
import statistics
import sys
import time

from ipybox import CodeExecutor  # type: ignore[import-not-found]


async def measure(starts: int, runs: int) -> dict[str, float]:
    cold, empty = [], []
    for _ in range(starts):
        began = time.perf_counter()
        async with CodeExecutor() as box:
            assert (await box.execute("6 * 7")).text == "42"
            cold.append(time.perf_counter() - began)
    async with CodeExecutor() as box:
        for _ in range(runs):
            began = time.perf_counter()
            await box.execute("")
            empty.append(time.perf_counter() - began)
    return {"cold_start": statistics.median(cold), "empty": statistics.median(empty)}


print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
