"""Pictures as SVG text: axes, marks and words, with colours that the page around them may set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH = 420
"""Units: what a phone shows at its own size, and a desktop in two columns."""
CHARACTER = 6.2
"""About how wide a character is."""
STYLE = """
text{font:11px system-ui,sans-serif;fill:var(--text,#1d2125)}
.tick{fill:var(--soft,#5f6b76)}
.strong{font-weight:600}
.grid{stroke:var(--line,#dfe3e6);stroke-width:1}
.axis{stroke:var(--soft,#5f6b76);stroke-width:1}
.null{stroke:var(--soft,#5f6b76);stroke-width:1;stroke-dasharray:4 3}
.c0{--c:var(--arm0,#0072b2)}.c1{--c:var(--arm1,#d55e00)}.c2{--c:var(--arm2,#9b4f96)}
.c3{--c:var(--arm3,#00835f)}.c4{--c:var(--arm4,#8a6d00)}.c5{--c:var(--arm5,#5f6b76)}
.mark{fill:var(--c);stroke:var(--c)}
.hollow{fill:var(--card,#fff);stroke:var(--c);stroke-width:1.5}
.line{fill:none;stroke:var(--c);stroke-width:1.75}
.bar{fill:var(--c)}
.pale{fill:var(--c);opacity:.35}
.seg0{fill:var(--seg0,#2a9d6f)}.seg1{fill:var(--seg1,#e0a030)}.seg2{fill:var(--seg2,#c46a1f)}.seg3{fill:var(--seg3,#8f5fb0)}
.seg4{fill:var(--seg4,#4f7fbf)}.seg5{fill:var(--seg5,#b3261e)}.seg6{fill:var(--seg6,#8b96a1)}.seg7{fill:var(--seg7,#333a41)}
""".strip()


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places; with `log`, values are above 0."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (
            map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most: int = 6) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high, most)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, at most about so many."""
    if high <= low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(step * number, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; powers only, where the range is wide."""
    factors: tuple[float, ...] = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        10.0**power * factor
        for power in powers
        for factor in factors
        if low * 0.999 <= 10.0**power * factor <= high * 1.001
    ]


def around(
    values: Sequence[float], *, log: bool = False, at_least: Sequence[float] = ()
) -> tuple[float, float]:
    """A range with some room around values."""
    known = [value for value in (*values, *at_least) if math.isfinite(value) and (value > 0 or not log)]
    if not known:
        return (0.5, 2.0) if log else (0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        room = max(1.15, (high / low) ** 0.06)
        return low / room, high * room
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def number(value: float) -> str:
    """A value as a tick shows it: 0.5, 20, 3k, 1.5M."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


@dataclass
class Canvas:
    """Shapes one after the other. `title` is what a screen reader says."""

    height: float
    title: str
    width: float = WIDTH
    shapes: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", style: str = "", most: int = 0
    ) -> None:
        """`most` characters are shown; all of them when it is pointed at."""
        shown = words if not most or len(words) <= most else f"{words[: most - 1]}…"
        tip = f"<title>{escape(words)}</title>" if shown != words else ""
        kind = f' class="{style}"' if style else ""
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(shown)}{tip}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.shapes.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def rect(self, x: float, y: float, width: float, height: float, style: str, tip: str = "") -> None:
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" class="{style}">{_tip(tip)}</rect>'
        )

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        if points:
            steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self.shapes.append(f'<path d="M{steps}" class="{style}"/>')

    def mark(
        self, x: float, y: float, arm: int, tip: str = "", *, size: float = 4, hollow: bool = False
    ) -> None:
        """A mark of an arm: each has a colour and a shape of its own."""
        style = f"c{arm % 6} {'hollow' if hollow else 'mark'}"
        r = size
        match arm % 5:
            case 0:
                shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"'
            case 1:
                shape = f'<rect x="{x - r * 0.9:.1f}" y="{y - r * 0.9:.1f}" width="{r * 1.8:.1f}" height="{r * 1.8:.1f}"'
            case 2:
                shape = f'<path d="M{x:.1f} {y - r * 1.2:.1f} l{r * 1.15:.1f} {r * 2:.1f} h{-r * 2.3:.1f} z"'
            case 3:
                shape = f'<path d="M{x:.1f} {y - r * 1.3:.1f} l{r * 1.3:.1f} {r * 1.3:.1f} l{-r * 1.3:.1f} {r * 1.3:.1f} l{-r * 1.3:.1f} {-r * 1.3:.1f} z"'
            case _:
                shape = f'<path d="M{x:.1f} {y + r * 1.2:.1f} l{r * 1.15:.1f} {-r * 2:.1f} h{-r * 2.3:.1f} z"'
        self.shapes.append(f'{shape} class="{style}">{_tip(tip)}</{shape[1:].split()[0]}>')

    def bottom_axis(
        self,
        scale: Scale,
        top: float,
        bottom: float,
        label: str,
        show: Callable[[float], str] = number,
        most: int = 6,
    ) -> None:
        """Ticks below a plot with lines through it, and what the values are."""
        last = -math.inf
        for value in scale.ticks(most):
            x, words = scale(value), show(value)
            self.line(x, top, x, bottom, "grid")
            half = len(words) * CHARACTER / 2
            if x - half > last:
                self.text(x, bottom + 14, words, anchor="middle", style="tick")
                last = x + half + 3
        self.line(scale.begin, bottom, scale.end, bottom, "axis")
        if label:
            self.text((scale.begin + scale.end) / 2, bottom + 29, label, anchor="middle", style="tick")

    def left_axis(
        self,
        scale: Scale,
        left: float,
        right: float,
        label: str,
        show: Callable[[float], str] = number,
        most: int = 6,
    ) -> None:
        for value in scale.ticks(most):
            y = scale(value)
            self.line(left, y, right, y, "grid")
            self.text(left - 5, y + 4, show(value), anchor="end", style="tick")
        if label:
            self.text(4, min(scale.begin, scale.end) - 12, label, style="tick")

    def legend(self, names: Sequence[str], y: float, *, x: float = 8, first: int = 0) -> float:
        """The arms with their marks, in as many lines as they need; where the last line ends."""
        here = x
        for place, name in enumerate(names):
            width = 14 + len(name) * CHARACTER + 14
            if here + width > self.width and here > x:
                here, y = x, y + 16
            self.mark(here + 5, y - 4, first + place)
            self.text(here + 14, y, name)
            here += width
        return y

    def svg(self, caption: str | None = None) -> str:
        """For a page that has the style; with a `caption` as a file of its own, with all in it."""
        if caption is None:
            return self._svg(self.height, "".join(self.shapes))
        words = f'<text x="8" y="{self.height + 12:g}" class="tick" font-size="9" textLength="{min(self.width - 16, len(caption) * 5.2):g}" lengthAdjust="spacingAndGlyphs">{escape(caption)}</text>'
        back = '<rect width="100%" height="100%" fill="#fff"/>'
        return self._svg(self.height + 22, f"<style>{STYLE}</style>{back}{''.join(self.shapes)}{words}")

    def _svg(self, height: float, content: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {height:g}" role="img" '
            f'class="plot"><title>{escape(self.title)}</title>{content}</svg>'
        )


def _tip(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""
