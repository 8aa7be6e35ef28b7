"""Replaying a run: its cells are executed again without a model, and what comes of them is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeact.run.history import Past
from codeact.run.restore import Restored
from codeact.run.resume import Standing


@dataclass(frozen=True, slots=True)
class Replay:
    """`cells` is how many were executed again, of `total`. `differences` are lines, the first difference first; `left_out`
    are lines on cells that were not executed again. `seconds` is how long it took."""

    run: str
    cells: int
    total: int
    differences: tuple[str, ...]
    left_out: tuple[str, ...]
    seconds: float

    @property
    def same(self) -> bool:
        return not self.differences


def compared(standing: Standing, cells: Sequence[Past], restored: Restored) -> Replay:
    differences = [restored.failed] if restored.failed is not None else []
    differences += [line for line in restored.differences if line not in restored.left_out]
    return Replay(
        run=standing.run,
        cells=len(restored.cells),
        total=len(cells),
        differences=tuple(differences),
        left_out=restored.left_out,
        seconds=restored.seconds,
    )
