"""Times calls of a trivial tool through ipybox's generated MCP module; run by `benchmarks.peers` in ipybox's environment.

Prints one JSON object. freeact runs its code through the same package. The kernel runs without ipybox's sandbox, which
needs a program of npm's, and calls are not asked about.
"""

import asyncio
import json
import sys
import tempfile
import warnings
from pathlib import Path

SERVER = """
import time
from mcp.server.fastmcp import FastMCP
mcp = FastMCP("bench")

@mcp.tool()
def trivial(number: int) -> int:
    "Gives back a number."
    return number

mcp.run()
"""
TIMED = """
import statistics, time
from tools.bench import trivial
def once():
    began = time.perf_counter()
    trivial.run(trivial.Params(number=1))
    return time.perf_counter() - began
once()
print(statistics.median(once() for _ in range({calls})))
"""


async def main(calls: int) -> None:
    from ipybox import CodeExecutor, generate_mcp_sources  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder, "server.py")
        server.write_text(SERVER)
        parameters = {"command": sys.executable, "args": [str(server)]}
        await generate_mcp_sources("bench", parameters, Path(folder, "tools"))
        async with CodeExecutor(
            kernel_env={"PYTHONPATH": folder}, approve_tool_calls=False, log_level="ERROR"
        ) as executor:
            result = await executor.execute(TIMED.format(calls=calls))
    print(json.dumps({"call": float(result.text)}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main(int(sys.argv[1])))
