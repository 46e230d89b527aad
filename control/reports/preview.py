"""What a run of a window would send now (pure): the same bodies, made by the same rules, but for
their place in a run that there is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from meterline.limits import DELIVERY_BODY_BYTES_MAX, PREVIEW_TOO_LARGE_SHOWN
from meterline.meter import Meter
from meterline.report import (
    NO_SEQUENCE,
    Figures,
    Gathering,
    Report,
    Run,
    Scene,
    Statement,
    SubjectUsage,
    too_large,
)
from meterline.usage import UsageRow

_REST_BYTES_MAX: Final = 1024 * 1024  # of a body, but for its entries: the meter with its paths


@dataclass(frozen=True, slots=True)
class PreviewedBody:
    """The body for one subject; None where it would be too large, and then `failure` says so in
    words: its delivery would fail, and the others be sent.
    """

    subject: str
    entries: int
    size: int  # bytes
    body: bytes | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ReportPreview:
    """A page of the bodies, what the whole run says, and which subjects are too large for it, the
    first of them.
    """

    figures: Figures
    deliveries: int
    bodies: tuple[PreviewedBody, ...]
    more: bool
    too_large: tuple[PreviewedBody, ...]


@dataclass(slots=True)
class _Seen:
    """Subjects so far: those of the page, and those that may be too large, by their places."""

    subjects: int = 0
    page: list[tuple[int, SubjectUsage]] = field(default_factory=list)
    more: bool = False
    large: list[tuple[int, SubjectUsage]] = field(default_factory=list)


class Previewing:
    """Makes the bodies of a run, by subject, from the one after `after`, of rows as they come."""

    def __init__(self, report: Report, run: Run, limit: int, after: str = "") -> None:
        self._report = report
        self._run = run
        self._limit = limit
        self._after = after
        self._gathering = Gathering(run, report.filter)
        self._seen = _Seen()

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Rows by subject and groups."""
        self._take(self._gathering.add(rows))

    def end(self, meter: Meter, complete_until_ms: int, left_out: tuple[int, int]) -> ReportPreview:
        """No more rows come; so many more were left out for their subject, with this sum."""
        self._take(self._gathering.end())
        figures, seen = self._gathering.figures, self._seen
        figures.filtered_out += left_out[0]
        figures.total_filtered_out += left_out[1]
        scene = Scene(self._report, meter, self._run, complete_until_ms, seen.subjects)
        large = (_body(scene, place, subject_usage) for place, subject_usage in seen.large)
        return ReportPreview(
            figures,
            seen.subjects,
            tuple(_body(scene, place, subject_usage) for place, subject_usage in seen.page),
            seen.more,
            tuple(it for it in large if it.size > DELIVERY_BODY_BYTES_MAX),
        )

    def _take(self, ended: Sequence[SubjectUsage]) -> None:
        seen = self._seen
        for subject_usage in ended:
            if subject_usage.subject > self._after:
                if len(seen.page) < self._limit:
                    seen.page.append((seen.subjects, subject_usage))
                else:
                    seen.more = True
            if subject_usage.size + _REST_BYTES_MAX > DELIVERY_BODY_BYTES_MAX and (
                len(seen.large) < PREVIEW_TOO_LARGE_SHOWN
            ):
                # to be measured, not shown
                seen.large.append((seen.subjects, replace(subject_usage, usage=None)))
            seen.subjects += 1


def _body(scene: Scene, place: int, subject_usage: SubjectUsage) -> PreviewedBody:
    size, body = scene.body(Statement(subject_usage), place + 1, NO_SEQUENCE)
    failure = too_large(subject_usage, size) if size > DELIVERY_BODY_BYTES_MAX else ""
    return PreviewedBody(subject_usage.subject, subject_usage.entries, size, body, failure)
