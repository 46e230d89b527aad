"""How an endpoint fares: what its answers make of it, how many deliveries it is sent at once, and
when it is no longer believed in.

An endpoint is a URL without user information, within a namespace. It is `out` after some attempts
in a row that found it away or overwhelmed. Then one delivery at a time is a probe, further and
further apart, and all others wait without an attempt. The first answer opens it again: two places,
and one more with each further answer, so that what has gathered does not fall upon it at once.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from msgspec import Struct

from meterline import limits
from meterline.window import rfc3339


class Sign(StrEnum):
    """What the end of one attempt says of its endpoint."""

    TAKEN = "taken"  # 2xx
    ANSWERED = "answered"  # not taken, but it is up: another delivery may well be
    OUT = "out"  # not reached, timed out, or overwhelmed


class Heard(Struct, frozen=True, gc=False):
    """A sign of an endpoint: from an attempt that began at `started_at_ms` and ended at `at_ms`."""

    namespace: str
    endpoint: str
    sign: Sign
    started_at_ms: int
    at_ms: int
    reason: str = ""
    retry_after_ms: int = 0  # that it asked for


@dataclass(frozen=True, slots=True)
class HealthTerms:
    """What an endpoint is judged by."""

    outages: int = limits.ENDPOINT_OUTAGES
    places_max: int = limits.ENDPOINT_IN_FLIGHT_MAX
    probe_pause_ms: int = limits.PROBE_PAUSE_S * 1_000
    patience_ms: int = limits.RETRY_PATIENCE_S * 1_000  # 0: it is believed in for ever
    silence_ms: int = limits.ENDPOINT_SILENCE_S * 1_000  # between failures: not tried all along


@dataclass(frozen=True, slots=True)
class Health:
    """What is kept of an endpoint. Of one that was never heard of: as here."""

    last_success_at_ms: int | None = None  # give or take a minute while all goes well
    failing_since_ms: int | None = None  # the first failure since a success
    last_failure_at_ms: int | None = None
    outages: int = 0  # attempts in a row that found it out
    places: int | None = None  # while it opens again; None: as many as there are
    # While it is out: the next probe is not before; while one is under way, the end of its lease.
    probe_at_ms: int | None = None
    reason: str = ""  # of the last failure

    @property
    def out(self) -> bool:
        """Whether only probes go there."""
        return self.probe_at_ms is not None

    def room(self, in_flight: int, places_max: int, now_ms: int) -> int:
        """How many more deliveries may be sent there now, beside those in flight."""
        if self.probe_at_ms is not None:
            return int(in_flight == 0 and self.probe_at_ms <= now_ms)
        places = places_max if self.places is None else min(self.places, places_max)
        return max(0, places - in_flight)


UNHEARD: Final = Health()


def after(health: Health, heard: Heard, terms: HealthTerms) -> Health:
    """The health after a sign; the very same where it says nothing new."""
    if heard.sign is Sign.TAKEN:
        return _taken(health, heard, terms)
    success_ms = health.last_success_at_ms
    if success_ms is not None and heard.started_at_ms < success_ms:
        return health  # it began before something was taken: the endpoint is better by now
    failing = _failing(health, heard, terms)
    if heard.sign is Sign.ANSWERED:
        opened = _opened(health, terms)
        return replace(failing, outages=0, places=opened, probe_at_ms=None)
    return _out(health, failing, heard, terms)


def doubted(health: Health, now_ms: int, terms: HealthTerms) -> str:
    """Why nobody believes in the endpoint any more, in words; "" while somebody does.

    That is so when nothing was taken for the whole patience, though it was tried all along.
    """
    since_ms = health.failing_since_ms
    if not terms.patience_ms or since_ms is None or now_ms - since_ms < terms.patience_ms:
        return ""
    taken = health.last_success_at_ms
    before = "" if taken is None else f" (the last success was at {rfc3339(taken)})"
    return (
        f"the receiver has taken nothing since {rfc3339(since_ms)}{before}, though it was tried all"
        f" along; the last error: {health.reason}. Resume the report when the receiver is well:"
        " what is owed is kept"
    )


def _taken(health: Health, heard: Heard, terms: HealthTerms) -> Health:
    well = health.failing_since_ms is None and not health.outages and health.places is None
    told_ms = health.last_success_at_ms
    if well and told_ms is not None and heard.at_ms - told_ms < limits.SUCCESS_WRITE_MS:
        return health
    return Health(last_success_at_ms=max(heard.at_ms, told_ms or 0), places=_opened(health, terms))


def _opened(health: Health, terms: HealthTerms) -> int | None:
    """The places after an answer."""
    places = health.places
    if health.out:
        places = 1
    if places is None or places + 1 >= terms.places_max:
        return None
    return places + 1


def _failing(health: Health, heard: Heard, terms: HealthTerms) -> Health:
    last_ms, since_ms = health.last_failure_at_ms, health.failing_since_ms
    untried = last_ms is not None and heard.started_at_ms - last_ms > terms.silence_ms
    if since_ms is None or untried:
        since_ms = heard.at_ms
    return replace(
        health,
        failing_since_ms=since_ms,
        last_failure_at_ms=max(heard.at_ms, last_ms or 0),
        reason=heard.reason,
    )


def _out(before: Health, failing: Health, heard: Heard, terms: HealthTerms) -> Health:
    last_ms = before.last_failure_at_ms
    outages = before.outages + 1
    if last_ms is not None and heard.started_at_ms < last_ms:
        # Of several that were under way together: one blow, after which no pause has passed yet.
        outages = max(before.outages, min(outages, terms.outages))
    if before.places is not None:
        outages = max(outages, terms.outages)  # it did not bear to be opened
    if outages < terms.outages:
        return replace(failing, outages=outages)
    doublings = min(outages - terms.outages, 30)
    pause_ms = terms.probe_pause_ms * min(2**doublings, limits.PROBE_PAUSES_MAX)
    probe_at_ms = heard.at_ms + max(pause_ms, heard.retry_after_ms)
    if outages == before.outages and before.probe_at_ms is not None:
        probe_at_ms = max(probe_at_ms, before.probe_at_ms)  # perhaps of a probe under way
    return replace(failing, outages=outages, places=None, probe_at_ms=probe_at_ms)
