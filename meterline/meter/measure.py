"""Measures: a meter revision made ready to read events. The fold, backfill and cut minutes all use
this one rule.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from meterline.event import MISSING, Event, Getter, compile_path
from meterline.limits import GROUPS_REMEMBERED_MAX, REJECTED_VALUE_CHARS_MAX
from meterline.meter.meter import Aggregation, Catalogue, Meter
from meterline.meter.tally import Latest, Tally
from meterline.number import canonical_scalar, scaled, why_rejected

MEMBER_BYTES: Final = 16
_encoder: Final = msgspec.json.Encoder(decimal_format="number")
NO_GROUPS: Final = "[]"


def encode_groups(values: list[str]) -> str:
    """Group values as one JSON array text: no value can forge a border, and the store's SQL can
    read it.
    """
    return _encoder.encode(values).decode()


def decode_groups(text: str) -> list[str]:
    """The values that `encode_groups` put together."""
    return msgspec.json.decode(text, type=list[str])


def member_of(value: object) -> bytes | None:
    """16-byte hash of the canonical text of a scalar; None for what a unique count rejects."""
    text = canonical_scalar(value)
    if text is None:
        return None
    return hashlib.blake2b(text.encode(), digest_size=MEMBER_BYTES).digest()


class Measure:
    """What one meter revision takes from the events of its type.

    `add` puts an event into a tally and says whether its value was usable; only what the
    aggregation needs is kept. A unique count has no `add`: its members are rows of their own.
    """

    __slots__ = (
        "_getters",
        "_known",
        "_value",
        "add",
        "aggregation",
        "groups",
        "meter",
        "revision",
    )

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.revision = meter.revision
        self.aggregation = meter.aggregation
        self._getters: tuple[Getter, ...] = tuple(
            compile_path(path) for _, path in meter.dimensions
        )
        self._known: dict[str | tuple[str, ...], str] = {}
        path = meter.value_property
        self._value: Getter = _nothing if path is None else compile_path(path)
        several = self._groups if len(self._getters) > 1 else self._one_group
        self.groups = several if self._getters else _no_groups
        self.add = self._adder()

    def _one_group(self, data: object) -> str:
        value = self._getters[0](data)
        if type(value) is not str:
            return encode_groups([canonical_scalar(value) or ""])
        known = self._known.get(value)
        return self._learned(value, [value]) if known is None else known

    def _groups(self, data: object) -> str:
        values = []
        for getter in self._getters:
            value = getter(data)
            values.append(value if type(value) is str else canonical_scalar(value) or "")
        key = tuple(values)
        known = self._known.get(key)
        return self._learned(key, values) if known is None else known

    def _learned(self, key: str | tuple[str, ...], values: list[str]) -> str:
        if len(self._known) >= GROUPS_REMEMBERED_MAX:
            self._known.clear()
        known = self._known[key] = encode_groups(values)
        return known

    def _adder(self) -> Callable[[Tally, Event], bool]:
        match self.aggregation:
            case Aggregation.COUNT | Aggregation.UNIQUE_COUNT:
                return _count
            case Aggregation.SUM | Aggregation.AVG:
                return _totals(self._value)
            case Aggregation.MIN | Aggregation.MAX:
                return _extremes(self._value)
            case Aggregation.LATEST:
                return _latest(self._value)

    def member(self, data: object) -> bytes | None:
        """The member of a unique count, or None where the value is rejected."""
        return member_of(self._value(data))

    def rejection(self, data: object) -> tuple[str, str]:
        """Why the value is rejected, in a word, and the JSON text of what stands there, cut."""
        value = self._value(data)
        if value is MISSING:
            return "missing", ""
        return why_rejected(value), _encoder.encode(value).decode()[:REJECTED_VALUE_CHARS_MAX]


def _no_groups(_data: object) -> str:
    return NO_GROUPS


def _nothing(_data: object) -> object:
    return MISSING


def _count(tally: Tally, _event: Event) -> bool:
    tally.count += 1
    return True


# Closures, not methods: one of these runs for every event and meter.


def _once(read: Callable[[object], int | None]) -> Callable[[object], int | None]:
    """`read`, which remembers its latest value: several meters take the same one of an event. Both
    halves of what it keeps change together, so threads may share it.
    """
    latest: tuple[object, int | None] = (MISSING, None)

    def reading(value: object) -> int | None:
        nonlocal latest
        known, result = latest
        if value is not known:
            result = read(value)
            latest = (value, result)
        return result

    return reading


_scaled: Final = _once(scaled)


def _totals(get: Getter) -> Callable[[Tally, Event], bool]:
    def add(tally: Tally, event: Event) -> bool:
        value = _scaled(get(event.data))
        if value is None:
            return False
        tally.total += value
        tally.count += 1
        return True

    return add


def _extremes(get: Getter) -> Callable[[Tally, Event], bool]:
    def add(tally: Tally, event: Event) -> bool:
        value = _scaled(get(event.data))
        if value is None:
            return False
        tally.count += 1
        if tally.minimum is None or value < tally.minimum:
            tally.minimum = value
        if tally.maximum is None or value > tally.maximum:
            tally.maximum = value
        return True

    return add


def _latest(get: Getter) -> Callable[[Tally, Event], bool]:
    def add(tally: Tally, event: Event) -> bool:
        value = _scaled(get(event.data))
        if value is None:
            return False
        tally.count += 1
        # Never by position: both set-ups order the log differently and must agree.
        newer = Latest(event.time_ms, event.recorded_ms, event.key, value)
        if tally.latest is None or newer > tally.latest:
            tally.latest = newer
        return True

    return add


Measures = dict[tuple[str, str], tuple[Measure, ...]]


def measures_of(catalogue: Catalogue, known: Measures | None = None) -> Measures:
    """The measures of all live meters by the (namespace, event type) that they match. Those that
    are `known` are taken over: of ten thousand meters, one was changed.
    """
    ready = {it.revision: it for several in (known or {}).values() for it in several}
    found: dict[tuple[str, str], list[Measure]] = {}
    for meter in catalogue.meters:
        measure = ready.get(meter.revision) or Measure(meter)
        found.setdefault((meter.namespace, meter.event_type), []).append(measure)
    return {key: tuple(measures) for key, measures in found.items()}
