"""What a run of a window would send now (pure): the same bodies, made by the same rules, but for
their place in a run that there is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from meterline.limits import DELIVERY_BODY_BYTES_MAX
from meterline.meter import Meter
from meterline.report import Report
from meterline.report_body import NO_SEQUENCE, Scene, Selection, select, statements
from meterline.run import Run
from meterline.usage import UsageRow

_CHARACTER_BYTES_MAX: Final = 6  # of JSON: a control character is written as \u0000
_ENTRY_BYTES_MAX: Final = 512  # of one entry, but for its texts
_REST_BYTES_MAX: Final = 1024 * 1024  # of a body, but for its entries: the meter with its paths


@dataclass(frozen=True, slots=True)
class PreviewedBody:
    """The body for one subject; None where it would be too large, so that no run could be made."""

    subject: str
    entries: int
    size: int  # bytes
    body: bytes | None


@dataclass(frozen=True, slots=True)
class ReportPreview:
    """A page of the bodies, what the whole run says, and which subjects are too large for it."""

    selection: Selection
    bodies: tuple[PreviewedBody, ...]
    more: bool
    too_large: tuple[PreviewedBody, ...]


def preview(
    report: Report,
    meter: Meter,
    run: Run,
    rows: Sequence[UsageRow],
    complete_until_ms: int,
    limit: int,
    after: str = "",
) -> ReportPreview:
    """The bodies of a run, by subject, from the one after `after`."""
    selection = select(rows, report.filter)
    subjects = [subject for subject, _ in selection.by_subject]
    scene = Scene(report, meter, run, complete_until_ms, len(subjects))
    first = sum(subject <= after for subject in subjects) if after else 0
    page = range(first, min(first + limit, len(subjects)))
    return ReportPreview(
        selection,
        tuple(_body(scene, run, selection, place) for place in page),
        first + limit < len(subjects),
        tuple(
            it
            for place in _maybe_too_large(selection)
            if (it := _body(scene, run, selection, place)).body is None
        ),
    )


def _body(scene: Scene, run: Run, selection: Selection, place: int) -> PreviewedBody:
    subject, rows = one = selection.by_subject[place]
    alone = Selection((one,), len(rows), 0, 0, 0)
    (statement,) = statements(run, alone, {})
    body = scene.body(statement, place + 1, NO_SEQUENCE)
    fits = len(body) <= DELIVERY_BODY_BYTES_MAX
    return PreviewedBody(subject, len(rows), len(body), body if fits else None)


def _maybe_too_large(selection: Selection) -> Iterator[int]:
    """Places of subjects whose bodies may be too large, by a bound from above: to make them all
    only to measure them would take long.
    """
    for place, (subject, rows) in enumerate(selection.by_subject):
        characters = sum(
            len(subject) + sum(len(name) + len(value) for name, value in row.groups) for row in rows
        )
        most = len(rows) * _ENTRY_BYTES_MAX + characters * _CHARACTER_BYTES_MAX + _REST_BYTES_MAX
        if most > DELIVERY_BODY_BYTES_MAX:
            yield place
