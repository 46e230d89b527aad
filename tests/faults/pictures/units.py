"""Values as Grafana writes them, by the units of the dashboard."""

from collections.abc import Sequence
from math import ceil, floor, log
from typing import Final

from tests.soak.plot import nice_step

_SHORT: Final = ((1e9, "Bil"), (1e6, "Mil"), (1e3, "K"))
_BYTES: Final = tuple(
    (1024.0**power, f"{letter}iB") for power, letter in ((3, "G"), (2, "M"), (1, "K"))
)
_SECONDS: Final = (
    *((86_400, "day"), (3_600, "hour"), (60, "min"), (1, "s")),
    *((1e-3, "ms"), (1e-6, "µs")),
)
A_SECOND: Final = {"eps": "evt/s", "reqps": "req/s", "cps": "c/s", "rowsps": "rows/s"}


def written(value: float, unit: str) -> str:
    """A value with its unit. Raises `KeyError` for a unit that is not known here."""
    match unit:
        case "percentunit":
            return f"{value * 100:.3g}%"
        case "s":
            return _scaled(value, _SECONDS) if value else "0 s"
        case "bytes":
            return _scaled(value, _BYTES, "B")
        case "short" | "none":
            return _scaled(value, _SHORT)
    return f"{_scaled(value, _SHORT)} {A_SECOND[unit]}"


def _scaled(value: float, scales: Sequence[tuple[float, str]], least: str = "") -> str:
    for scale, name in scales:
        if abs(value) >= scale * 0.9999:
            return f"{_figure(value / scale)} {name}"
    return f"{_figure(value)} {least}".strip()


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def ticks(greatest: float, unit: str) -> list[float]:
    """Round values of an axis from 0 to beyond the greatest one."""
    scale = 1.0
    if unit == "bytes" and greatest >= 1024:
        scale = 1024.0 ** floor(log(greatest, 1024))
    step = nice_step(greatest / scale) * scale
    return [step * at for at in range(max(1, ceil(greatest / step - 1e-9)) + 1)]
