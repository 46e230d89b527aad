"""Splitting: a batch's body becomes the texts of its events, at a cost bounded by its bounds.

Splitting a well-formed body in one go costs next to nothing. A body that is broken, or that has so
many elements that most cannot be events, is taken apart element by element instead, and no further
than a request may go: what is then refused has cost neither its size in memory nor seconds.
"""

import json
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from ingest.judgement import form_faults, not_json, refusal, too_deep, too_large
from meterline.limits import SPLIT_COMMAS_MAX
from meterline.problem import Fault, Problem, ProblemType


class _Marked(msgspec.Struct, gc=False):
    """What every event has, at 24 bytes each: no element without it is an event."""

    specversion: Literal["1.0"]


_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_marked: Final = msgspec.json.Decoder(list[_Marked]).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Only to find where an element ends: it makes as little as it can of what is in it.
_scan: Final = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
_CUT_CHARS: Final = 16  # so near to the end of what it was given, the scanner may have lacked some


def split(body: bytes, events_max: int, event_bytes_max: int) -> Sequence[bytes | msgspec.Raw]:
    """The texts of the elements of a batch, at most `events_max`.

    `body` is UTF-8 and begins with a bracket. Raises `Problem`: the event that breaks the batch, or
    that is larger than `event_bytes_max`, is named; or there are too many.
    """
    try:
        # A comma is two bytes of body, and could be an element of 70 bytes of memory.
        if body.count(b",") > SPLIT_COMMAS_MAX and len(_marked(body)) > events_max:
            raise _too_many(events_max)
        texts = _split(body)
    except _UNREADABLE:
        return _one_by_one(body.decode(), events_max, event_bytes_max)
    if len(texts) > events_max:
        raise _too_many(events_max)
    return texts


def _one_by_one(text: str, events_max: int, event_bytes_max: int) -> list[bytes]:
    texts: list[bytes] = []
    at = _after_white(text, 1)
    if text.startswith("]", at):
        return _ended(text, at, texts)
    window, start = "", 0  # scanned in pieces: an element that is too large is not read to its end
    while True:
        if len(texts) >= events_max:
            raise _too_many(events_max)
        seen = start + len(window)
        if seen < len(text) and at + event_bytes_max > seen:
            window, start = text[at : at + 2 * event_bytes_max], at
            seen = start + len(window)
        index = len(texts)
        try:
            _, size = _scan(window, at - start)
        except json.JSONDecodeError as error:
            if seen == len(text) or not _may_be_cut(error, len(window)):
                raise refusal([not_json(error, index, start)]) from None
            raise refusal([too_large(None, event_bytes_max, index)]) from None
        except RecursionError:
            raise refusal([too_deep("", index)]) from None
        end = start + size
        texts.append(_sound(text[at:end], index, event_bytes_max))
        at = _after_white(text, end)
        if text.startswith("]", at):
            return _ended(text, at, texts)
        if not text.startswith(",", at):
            reason = f"not JSON: a comma or the closing bracket is missing at character {at}"
            raise refusal([Fault("", reason, "json", index=index)])
        at = _after_white(text, at + 1)


def _may_be_cut(error: json.JSONDecodeError, end: int) -> bool:
    """Whether the scanner may have failed for want of more text."""
    return error.pos >= end - _CUT_CHARS or error.msg.startswith("Unterminated string")


def _sound(element: str, index: int, event_bytes_max: int) -> bytes:
    """The bytes of an element that the strict decoder would pass over. Raises `Problem`."""
    raw = element.encode()
    if len(raw) > event_bytes_max:
        raise refusal([too_large(len(raw), event_bytes_max, index)])
    try:
        _split(b"[%b]" % raw)
    except _UNREADABLE as error:
        faults = form_faults(element, index)
        raise refusal(faults or [Fault("", f"not JSON: {error}", "json", index=index)]) from None
    return raw


def _ended(text: str, at: int, texts: list[bytes]) -> list[bytes]:
    if at + 1 == len(text):
        return texts
    reason = f"not JSON: there is more text after the array, at character {at + 1}"
    raise refusal([Fault("", reason, "json")])


def _after_white(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _too_many(events_max: int) -> Problem:
    return Problem(
        ProblemType.BODY_TOO_LARGE,
        f"The request has more than {events_max} events. Send them in several requests.",
    )
