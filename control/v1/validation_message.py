"""Why an event does not count, in the peer's words, which its programs look for, and ours beside
them (OpenMeter's v1).
"""

import json
import re
from collections.abc import Mapping
from typing import Final

_INFINITY: Final = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_NAN: Final = re.compile(r"nan", re.IGNORECASE)
_UNSUPPORTED: Final = {
    "boolean": "bool",
    "object": "map[string]interface {}",
    "array": "[]interface {}",
}


def validation_message(message: str, attributes: Mapping[str, str], *, without_data: bool) -> str:
    """A line of `validationError`. `words` are ours, `attributes` those of the problem: the peer's
    words are made of its field, reason and value.
    """
    if "meter" not in attributes:
        return f"no meter found for event type: {attributes['type']}" if attributes else message
    peer_reason = _peer_reason(attributes, without_data=without_data)
    return message if peer_reason is None else f"invalid event: {peer_reason} ({message})"


def _peer_reason(attributes: Mapping[str, str], *, without_data: bool) -> str | None:
    reason, value = attributes["reason"], attributes.get("value", "")
    match reason:
        case "missing" if without_data:
            return "null and missing value property"
        case "missing":
            return f"missing value property: {json.dumps(attributes['field'], ensure_ascii=False)}"
        case "null":
            return "value cannot be null"
        case "boolean" | "object" | "array":
            return f"unsupported value property type: {_UNSUPPORTED[reason]}"
        case "not_a_number" | "out_of_range":
            return _of_text(value.strip('"'))
        case _:  # it lies before the meter's beginning: the peer has no word for it
            return None


def _of_text(text: str) -> str:
    if _NAN.fullmatch(text):
        return "value cannot be NaN"
    if _INFINITY.fullmatch(text):
        return "value cannot be infinity"
    return f"value cannot be parsed as float64: {text}"
