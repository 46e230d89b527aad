"""The health of an endpoint: whether it is down, how many deliveries it may be sent at once, and
when its reports are parked.

An endpoint is a URL without user information, within a namespace. An answer is about one delivery
or about the endpoint. Only answers about the endpoint delay other deliveries:

| answer | is about |
|---|---|
| 2xx | the endpoint: it is up |
| 3xx, 4xx | the delivery: the receiver is up, and refuses this one |
| 500 and other 5xx | the delivery, until `faults` different ones in a row fail like this |
| 502, 503, 504, no connection, no answer in time | the endpoint, after `outages` in a row |
| 429, or any refusal with `Retry-After` | the endpoint, at once |

An endpoint that is `out` (down) gets one delivery at a time, a probe. The pauses between probes
grow. All other deliveries wait and use no attempt. The first success ends the outage: two
deliveries are then sent at a time, and one more after each further answer. Decision 24 has the
reasons.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from msgspec import Struct

from meterline import limits
from meterline.window import rfc3339


class EndpointSignal(StrEnum):
    """What the end of one attempt says of its endpoint."""

    TAKEN = "taken"  # 2xx
    ANSWERED = "answered"  # refused, but it is up: another delivery may well be taken
    FAULT = "fault"  # 500 and the like: this delivery fails, perhaps all do
    OUT = "out"  # not reached, no answer in time, or a gateway that says so
    THROTTLED = "throttled"  # it asks to be left alone for a while


class EndpointObservation(Struct, frozen=True, gc=False):
    """What an attempt, from `started_at_ms` to `at_ms`, tells about its endpoint.

    `first`: the delivery's first attempt (or first since its replay), so that no delivery is
    counted twice; `probe`: of an endpoint that was out.
    """

    namespace: str
    endpoint: str
    signal: EndpointSignal
    started_at_ms: int
    at_ms: int
    reason: str = ""
    retry_after_ms: int = 0  # that it asked for
    first: bool = True
    probe: bool = False


@dataclass(frozen=True, slots=True)
class HealthTerms:
    """What an endpoint is judged by."""

    outages: int = limits.ENDPOINT_OUTAGES
    faults: int = limits.ENDPOINT_FAULTS
    places_max: int = limits.ENDPOINT_IN_FLIGHT_MAX
    probe_pause_ms: int = limits.PROBE_PAUSE_S * 1_000
    patience_ms: int = limits.RETRY_PATIENCE_S * 1_000  # 0: it is believed in for ever
    silence_ms: int = limits.ENDPOINT_SILENCE_S * 1_000  # between failures: not tried all along

    def tolerated(self, alarms: int) -> int:
        """How many attempts in a row that found it out make an outage."""
        return min(self.outages << min(alarms, 30), self.faults)

    def pause_ms(self, probes: int) -> int:
        """How long after this many failed probes the next one is."""
        doublings = min(probes // limits.PROBES_A_PAUSE, 30)
        return self.probe_pause_ms * min(1 << doublings, limits.PROBE_PAUSES_MAX)


@dataclass(frozen=True, slots=True)
class Health:
    """What is kept of an endpoint. Of one that was never heard of: as here."""

    last_success_at_ms: int | None = None  # give or take a minute while all goes well
    failing_since_ms: int | None = None  # the first failure since a success
    last_failure_at_ms: int | None = None
    outages: int = 0  # attempts in a row that found it out
    faults: int = 0  # deliveries in a row that failed at their first attempt, none taken between
    # Outages of late that may have been none: each doubles what is tolerated, so that a receiver
    # that is out for some deliveries only holds up the others less and less. One after which
    # `CALM_ANSWERS` came without an outage is taken back: who is out for some soon is again.
    alarms: int = 0
    # While it opens again, and beyond all places until an alarm is taken back; None: all places.
    places: int | None = None
    # While it is out: the next probe is not before; while one is under way, the end of its lease.
    probe_at_ms: int | None = None
    probes: int = 0  # that failed since it is out
    reason: str = ""  # of the last failure

    @property
    def out(self) -> bool:
        """Whether only probes go there."""
        return self.probe_at_ms is not None

    def room(self, in_flight: int, places_max: int, faults_max: int, now_ms: int) -> int:
        """How many more deliveries may be claimed for it now, beside those in hand. Once a share of
        the faults that make it out came in a row: never more than may fail before it is out. Before
        that, who sends them counts faults himself, and gives back what waits.
        """
        if self.probe_at_ms is not None:
            return int(in_flight == 0 and self.probe_at_ms <= now_ms)
        places = places_max if self.places is None else min(self.places, places_max)
        if self._doubtful(faults_max):
            places = min(places, max(1, faults_max - self.faults))
        return max(0, places - in_flight)

    def retries(self, count: int, faults_max: int) -> int:
        """How many of so many claimed deliveries are retries although first tries wait.

        A receiver that fails each delivery once is known by its retries only: where nothing is
        taken at first, they have a share; of probes, every third.
        """
        if self.out:
            return min(count, int(self.probes % limits.PROBES_A_PAUSE == limits.PROBES_A_PAUSE - 1))
        return (count + self.faults % 2) // 2 if self._doubtful(faults_max) else 0

    def _doubtful(self, faults_max: int) -> bool:
        return self.faults >= faults_max // limits.FAULTS_SHARED_FROM


UNOBSERVED: Final = Health()


class EndpointChange(Struct, frozen=True, gc=False):
    """An endpoint went down, or is up again: whoever operates it wants to know when and why."""

    namespace: str
    endpoint: str
    down: bool
    since_ms: int | None  # since when it has been failing, where this is known
    reason: str


def change_of(address: tuple[str, str], before: Health, now: Health) -> EndpointChange | None:
    """What became of an endpoint between two healths; None where it is up or down as before."""
    if before.out == now.out:
        return None
    failing = now if now.out else before
    return EndpointChange(*address, now.out, failing.failing_since_ms, failing.reason)


def after(health: Health, observed: EndpointObservation, terms: HealthTerms) -> Health:
    """The health after an observation; the same object if nothing changed."""
    if observed.signal is EndpointSignal.TAKEN:
        return _taken(health, observed, terms)
    success_ms = health.last_success_at_ms
    if success_ms is not None and observed.started_at_ms < success_ms:
        return health  # it began before something was taken: the endpoint is better by now
    failing = _failing(health, observed, terms)
    if observed.signal is EndpointSignal.ANSWERED:
        return _opened(failing, terms)
    if health.out:
        return _still_out(failing, observed, terms)
    if observed.signal is EndpointSignal.FAULT:
        counted = replace(failing, outages=0, faults=failing.faults + observed.first)
        return counted if counted.faults < terms.faults else _shut(counted, observed, terms)
    counted = replace(failing, outages=failing.outages + 1)
    if observed.signal is EndpointSignal.THROTTLED:
        return _shut(counted, observed, terms)
    if counted.outages >= terms.tolerated(counted.alarms):
        return _shut(replace(counted, alarms=counted.alarms + 1), observed, terms)
    if counted.places is not None:  # it opens again: more slowly
        return replace(counted, places=max(2, min(counted.places, terms.places_max) // 2))
    return counted


def distrusted(health: Health, now_ms: int, terms: HealthTerms) -> str:
    """Why nobody believes in the endpoint any more, in words; "" while somebody does.

    That is so when nothing was taken for the whole patience, though it was tried all along.
    """
    since_ms = health.failing_since_ms
    if not terms.patience_ms or since_ms is None or now_ms - since_ms < terms.patience_ms:
        return ""
    taken = health.last_success_at_ms
    before = "" if taken is None else f" (the last success was at {rfc3339(taken)})"
    return (
        f"the receiver has accepted nothing since {rfc3339(since_ms)}{before}, although it was"
        f" tried regularly; the last error: {health.reason}. Repair the receiver, then resume the"
        " report: what is owed is kept"
    )


def _taken(health: Health, observed: EndpointObservation, terms: HealthTerms) -> Health:
    well = health.failing_since_ms is None and not health.outages and health.places is None
    stored_ms = health.last_success_at_ms
    alarms = health.alarms
    if well and stored_ms is not None:
        if observed.at_ms - stored_ms < limits.SUCCESS_WRITE_MS:
            return health
        alarms = max(0, alarms - 1)
    fresh = Health(alarms=alarms, places=health.places, probe_at_ms=health.probe_at_ms)
    success_ms = max(observed.at_ms, stored_ms or 0)
    return replace(_opened(fresh, terms), last_success_at_ms=success_ms)


def _opened(health: Health, terms: HealthTerms) -> Health:
    """After an answer: two places where it was out, else one more. When all are there, and enough
    answers came beyond them, its outage was one: an alarm less.
    """
    places, alarms = 1 if health.out else health.places, health.alarms
    calm = terms.places_max + (limits.CALM_ANSWERS if alarms else 0)
    if places is not None and places + 1 >= calm:
        places, alarms = None, max(0, alarms - 1)
    elif places is not None:
        places += 1
    return replace(
        health, outages=0, faults=0, alarms=alarms, places=places, probe_at_ms=None, probes=0
    )


def _failing(health: Health, observed: EndpointObservation, terms: HealthTerms) -> Health:
    last_ms, since_ms = health.last_failure_at_ms, health.failing_since_ms
    untried = last_ms is not None and observed.started_at_ms - last_ms > terms.silence_ms
    if since_ms is None or untried:
        since_ms = observed.at_ms
    return replace(
        health,
        failing_since_ms=since_ms,
        last_failure_at_ms=max(observed.at_ms, last_ms or 0),
        reason=observed.reason,
    )


def _shut(health: Health, observed: EndpointObservation, terms: HealthTerms) -> Health:
    """It is out from now on."""
    return replace(health, places=None, probes=0, probe_at_ms=_next_probe_ms(0, observed, terms))


def _still_out(health: Health, observed: EndpointObservation, terms: HealthTerms) -> Health:
    """A probe failed, or one of those that were under way when it went out."""
    assert health.probe_at_ms is not None
    if not observed.probe:
        at_ms = max(health.probe_at_ms, _next_probe_ms(health.probes, observed, terms))
        return replace(health, probe_at_ms=at_ms)
    probes, faults, alarms = health.probes + 1, health.faults, health.alarms
    if observed.signal is EndpointSignal.FAULT and faults < terms.faults:
        probes, faults = 0, terms.faults  # it answers again: it is soon known for how many
    if probes == limits.PROBES_A_PAUSE * limits.PAUSES_OF_AN_OUTAGE:
        alarms = max(0, alarms - 2)  # it was no false alarm: as before it, and one less
    at_ms = _next_probe_ms(probes, observed, terms)
    return replace(health, probes=probes, faults=faults, alarms=alarms, probe_at_ms=at_ms)


def _next_probe_ms(probes: int, observed: EndpointObservation, terms: HealthTerms) -> int:
    asked_ms = min(observed.retry_after_ms, 1_000 * limits.ENDPOINT_RETRY_AFTER_MAX_S)
    return observed.at_ms + max(terms.pause_ms(probes), asked_ms)
