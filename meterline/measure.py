"""Measures: a meter revision made ready to read events. The fold, backfill and cut minutes all use this one rule."""

import hashlib
from typing import Final

import msgspec

from meterline.limits import REJECTED_VALUE_CHARS_MAX
from meterline.meter import Aggregation, Catalogue, Meter
from meterline.number import canonical_scalar, scaled, why_rejected
from meterline.path import MISSING, Getter, compile_path

MEMBER_BYTES: Final = 16
_encoder: Final = msgspec.json.Encoder(decimal_format="number")
NO_GROUPS: Final = "[]"


def encode_groups(values: list[str]) -> str:
    """Group values as one JSON array text: no value can forge a border, and the store's SQL can read it."""
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
    """What one meter revision takes from the data of an event of its type."""

    __slots__ = ("_getters", "_value", "aggregation", "groups", "meter", "revision", "value")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.revision = meter.revision
        self.aggregation = meter.aggregation
        self._getters: tuple[Getter, ...] = tuple(compile_path(path) for _, path in meter.dimensions)
        path = meter.value_property
        self._value: Getter | None = None if path is None else compile_path(path)
        self.groups = self._groups if self._getters else _no_groups
        self.value = _zero if meter.aggregation is Aggregation.COUNT else self._scaled

    def _groups(self, data: object) -> str:
        values = []
        for getter in self._getters:
            value = getter(data)
            if type(value) is not str:
                value = canonical_scalar(value) or ""
            values.append(value)
        return encode_groups(values)

    def _scaled(self, data: object) -> int | None:
        assert self._value is not None, "only a count has no value"
        return scaled(self._value(data))

    def member(self, data: object) -> bytes | None:
        """The member of a unique count, or None where the value is rejected."""
        assert self._value is not None, "only a count has no value"
        return member_of(self._value(data))

    def rejection(self, data: object) -> tuple[str, str]:
        """Why the value is rejected, in a word, and the JSON text of what stands there, cut."""
        value = MISSING if self._value is None else self._value(data)
        if value is MISSING:
            return "missing", ""
        reason = why_rejected(value)
        if self.aggregation is Aggregation.UNIQUE_COUNT and reason == "not_a_number":
            reason = "not_a_scalar"
        return reason, _encoder.encode(value).decode()[:REJECTED_VALUE_CHARS_MAX]


def _no_groups(_data: object) -> str:
    return NO_GROUPS


def _zero(_data: object) -> int:
    return 0


Measures = dict[tuple[str, str], tuple[Measure, ...]]


def measures_of(catalogue: Catalogue) -> Measures:
    """The measures of all live meters by the (namespace, event type) that they match."""
    found: dict[tuple[str, str], list[Measure]] = {}
    for meter in catalogue.meters:
        found.setdefault((meter.namespace, meter.event_type), []).append(Measure(meter))
    return {key: tuple(measures) for key, measures in found.items()}
