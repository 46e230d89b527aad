"""Slices: where one ends follows from the log alone, so every reader cuts a log alike
(docs/architecture.md, "Slices").
"""

from dataclasses import dataclass

from meterline.limits import SLICE_EVENTS_MAX, SLICE_SPAN_MS


@dataclass(frozen=True, slots=True)
class Border:
    """What of an open slice decides where it ends: events so far, and the five-minute span of its
    first record.
    """

    events: int
    span: int

    def ends_before(self, events: int, append_ms: int) -> bool:
        """Whether a record of so many events, appended then, belongs to the next slice.

        What has no events is a slice by itself: its record may expire before it is sealed, and who
        never saw it must cut behind it as well.
        """
        full = self.events + events > SLICE_EVENTS_MAX
        return full or not self.events or append_ms // SLICE_SPAN_MS != self.span

    def is_filled(self, part: float) -> bool:
        """Whether it is full to one such part at least: to a half, where `part` is 2."""
        return self.events * part >= SLICE_EVENTS_MAX

    def left_ms(self, at_ms: int) -> int:
        """How long until its span is over; 0 where it is over by then."""
        return max(0, (self.span + 1) * SLICE_SPAN_MS - at_ms)

    def grown(self, events: int) -> "Border":
        """The border after a record of so many events was taken in."""
        return Border(self.events + events, self.span)


def opened(append_ms: int) -> Border:
    """The border of a slice whose first record was appended then."""
    return Border(0, append_ms // SLICE_SPAN_MS)
