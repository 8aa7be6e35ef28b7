"""`python -m sandbox engine ensure|find|stop` and `python -m sandbox images build|list|verify [NAME]`."""

from __future__ import annotations

import sys

from sandbox import engine, images

COMMANDS = {"engine": engine.main, "images": images.main}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        print(f"usage: python -m sandbox {'|'.join(COMMANDS)} ...", file=sys.stderr)
        return 2
    return COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
