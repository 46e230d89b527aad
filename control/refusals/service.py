"""What is done about refusals: found, listed, dismissed, sent anew.

Sending anew is three steps: the event is put down, with its identity; it goes into the log as any
event does; it is noted that it is in. Whatever breaks off between them leaves a refusal that is
`redriving`: asked for again, the same event goes in again, and counts once, as long as a copy is
known as a duplicate.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web

from control.event_judgement import Judged, judged_events
from control.refusals.conditions import meets
from control.refusals.reasons import (
    AS_IT_IS,
    NEEDS_ANOTHER,
    counted_message,
    doubt_message,
    sent_message,
)
from control.stores import Stores
from meterline.access import Principal
from meterline.event import (
    Column,
    Condition,
    Event,
    EventQuery,
    ListedEvent,
    Op,
    Order,
    Place,
    Position,
    RefusalKind,
    RefusalState,
    RefusedEvents,
    Settlement,
    SettlementStore,
    Verdict,
    Way,
    decode_event,
    is_whole,
    kind_of,
    parse_position,
    position_of,
    position_text,
    state_of,
    timed,
)
from meterline.limits import HORIZON_DAYS, PAGE_SIZE_MAX, REFUSALS_SEARCHED_MAX
from meterline.meter import BEFORE_START, Outcome
from meterline.problem import Problem, ProblemType, not_found
from meterline.window import DAY_MS, HOUR_MS

ORDER: Final = Order(Column.STORED_AT)
_OF_KIND: Final = {
    RefusalKind.CONFLICT: Verdict.CONFLICT,
    RefusalKind.INBOX: Verdict.INVALID,
    RefusalKind.UNREADABLE: Verdict.INVALID,
}
LISTED_KINDS: Final = frozenset(_OF_KIND)


class Gateway(Protocol):
    """Where events come in: the gateway's own admission and publisher."""

    def judge(self, namespace: str, text: bytes) -> Event:
        """The event that a text would be. Raises `Problem` (invalid-event) with every fault."""
        ...

    def take(self, request: web.Request, principal: Principal, count: int) -> None:
        """Count events against the caller's plan. Raises `Problem` (rate-limited)."""
        ...

    async def let_in(self, namespace: str, texts: Sequence[bytes]) -> None:
        """Return once all are durable. Raises `Problem`: invalid-event or unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class RefusalQuery:
    """A page of refusals, those last taken in by the log first. `unowned`: also of nobody."""

    namespace: str
    now_ms: int
    limit: int
    unowned: bool = False
    kinds: frozenset[RefusalKind] = LISTED_KINDS
    states: frozenset[RefusalState] = frozenset(RefusalState)
    conditions: tuple[tuple[Column, Condition], ...] = ()
    after: Place | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused, and what was done about it. `judged` where its contents are asked for."""

    kind: RefusalKind
    listed: ListedEvent
    settlement: Settlement | None
    judged: Judged | None = None

    @property
    def position(self) -> Position:
        """Where it lies."""
        return position_of(self.listed)

    @property
    def name(self) -> str:
        """Its id."""
        return position_text(self.position)

    @property
    def state(self) -> RefusalState:
        """What was done about it."""
        return state_of(self.settlement)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What each meter made of an event that was accepted: of a rejected value."""
        return self.judged.outcomes if self.judged else ()

    @property
    def way(self) -> Way:
        """How it can be sent anew, whatever was done about it."""
        if self.kind is RefusalKind.INBOX and is_whole(self.listed.text):
            return Way.AS_IT_IS
        return Way.NONE if any(one.counted for one in self.outcomes) else Way.FIXED


@dataclass(frozen=True, slots=True)
class RefusalPage:
    """Refusals, and the place behind which the list goes on; None at its end."""

    refusals: list[Refusal]
    following: Place | None


@dataclass(frozen=True, slots=True)
class Sending:
    """A refusal, and the event that is sent for it: its text and what admission makes of it."""

    refusal: Refusal
    text: bytes
    event: Event

    def settlement(self, principal: Principal, now_ms: int) -> Settlement:
        """As it is put down."""
        listed, event = self.refusal.listed, self.event
        return Settlement(
            position=self.refusal.position,
            owner=listed.namespace,
            kind=self.refusal.kind,
            append_ms=listed.append_ms,
            state=RefusalState.REDRIVING,
            namespace=principal.namespace,
            author=principal.author,
            at_ms=now_ms,
            source=event.source,
            id=event.id,
            check=event.check,
            text=self.text,
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """What stands of a refusal for which an event was to be sent; in words why it was not: another
    one was put down before, or it may count by now and a copy would not be known as one.
    """

    settlement: Settlement
    why_not: str = ""


class RefusalService:
    """Refusals of the namespaces of those who ask."""

    def __init__(
        self,
        stores: Stores,
        refused: RefusedEvents,
        settlements: SettlementStore,
        gateway: Gateway,
        horizon_ms: int = HORIZON_DAYS * DAY_MS,
    ) -> None:
        self._horizon_ms = horizon_ms
        self.stores = stores
        self.settlements = settlements
        self.gateway = gateway
        self._refused = refused

    async def page(self, query: RefusalQuery) -> RefusalPage:
        """Refusals in order. Only so many are looked at: where few are of the states that are asked
        for, a page may have fewer than there are, even none, and lead on.
        """
        found: list[Refusal] = []
        searched, after = 0, query.after
        while searched < REFUSALS_SEARCHED_MAX:
            size = PAGE_SIZE_MAX if query.states != frozenset(RefusalState) else query.limit + 1
            chunk = await self._chunk(query, after, size)
            for place, refusal in chunk:
                if refusal is not None and _is_asked_for(refusal, query):
                    if len(found) == query.limit:
                        return RefusalPage(found, after)
                    found.append(refusal)
                after = place
            if len(chunk) < size:
                return RefusalPage(found, None)
            searched += size
        return RefusalPage(found, after)

    async def _chunk(
        self, query: RefusalQuery, after: Place | None, size: int
    ) -> list[tuple[Place, Refusal | None]]:
        """The next ones, from the store that knows the fewest that could be asked for."""
        if RefusalState.OPEN not in query.states and len(query.states) == 1:
            return await self._settled(query, after, size)
        owner = "" if query.kinds == {RefusalKind.UNREADABLE} else query.namespace
        asked = EventQuery(
            namespace=owner,
            now_ms=query.now_ms,
            limit=size,
            conditions=query.conditions,
            verdicts=frozenset(_OF_KIND[kind] for kind in query.kinds),
            order=ORDER,
            after=after,
            unowned=query.unowned and RefusalKind.UNREADABLE in query.kinds,
        )
        listed = await self.stores.usage.listed_events(asked)
        settled = await self.settlements.settlements([position_of(one) for one in listed])
        return [(one.place_by(ORDER), refusal_of(one, settled)) for one in listed]

    async def _settled(
        self, query: RefusalQuery, after: Place | None, size: int
    ) -> list[tuple[Place, Refusal | None]]:
        (state,) = query.states
        owners = [query.namespace, ""] if query.unowned else [query.namespace]
        settled = await self.settlements.settled(owners, state, after, size)
        listed = await self._refused.refused_at([one.position for one in settled])
        by_position = {one.position: one for one in settled}
        refusals = {position_of(one): refusal_of(one, by_position) for one in listed}
        return [
            (Place(one.append_ms, *one.position), refusals.get(one.position)) for one in settled
        ]

    async def refusal(self, namespace: str, name: str, *, unowned: bool) -> Refusal:
        """A refusal by its id, judged. Raises `Problem` (not found)."""
        position = parse_position(name)
        found = None if position is None else await self._at(position)
        if found is None or found.namespace not in ({namespace, ""} if unowned else {namespace}):
            raise not_found("refusal", name)
        settled = await self.settlements.settlements([position_of(found)])
        (judged,) = await judged_events(self.stores, namespace, [found])
        settlement = settled.get(position_of(found))
        kind = kind_of(found)
        if kind is None and found.verdict is Verdict.NEW:
            reasons = {one.reason for one in judged.outcomes} - {"", BEFORE_START}
            kind = RefusalKind.VALUE if reasons or settlement else None
        if kind is None:
            raise not_found("refusal", name)
        return Refusal(kind, found, settlement, judged)

    async def _at(self, position: Position) -> ListedEvent | None:
        refused = await self._refused.refused_at([position])
        found = refused or await self.stores.usage.new_events([position])
        return found[0] if found else None

    async def dismiss(self, refusal: Refusal, principal: Principal, note: str) -> Refusal:
        """Say that nothing is to be done. Raises `Problem` (conflict) where an event was sent."""
        wanted = Settlement(
            position=refusal.position,
            owner=refusal.listed.namespace,
            kind=refusal.kind,
            append_ms=refusal.listed.append_ms,
            state=RefusalState.DISMISSED,
            namespace=principal.namespace,
            author=principal.author,
            at_ms=self.stores.now_ms,
            note=note,
        )
        stands = await self.settlements.dismiss(wanted)
        if stands.state is not RefusalState.DISMISSED:
            raise conflict(sent_message(stands))
        return Refusal(refusal.kind, refusal.listed, stands, refusal.judged)

    def sending(self, refusal: Refusal, namespace: str, fixed: bytes | None) -> Sending:
        """The event to send for a refusal: a fixed one, or its own text. Raises `Problem`: invalid
        event with every fault, or conflict where it cannot be sent anew so.
        """
        there = refusal.settlement
        if fixed is None and there is not None and there.text is not None:
            return Sending(refusal, there.text, self.gateway.judge(namespace, there.text))
        if refusal.way is Way.NONE:
            raise conflict(counted_message(refusal.outcomes))
        if fixed is None and refusal.way is not Way.AS_IT_IS:
            raise conflict(AS_IT_IS[refusal.kind])
        if fixed is None:
            self.gateway.judge(namespace, refusal.listed.text)
            text = timed(refusal.listed.text, refusal.listed.recorded_ms)
            return Sending(refusal, text, self.gateway.judge(namespace, text))
        event = self.gateway.judge(namespace, fixed)
        own = (refusal.listed.source, refusal.listed.id)
        if refusal.kind in NEEDS_ANOTHER and (event.source, event.id) == own:
            raise conflict(NEEDS_ANOTHER[refusal.kind])
        return Sending(refusal, fixed, event)

    async def counting(
        self, namespace: str, events: Sequence[Event]
    ) -> Mapping[tuple[str, str], bytes]:
        """Checks of those of these identities (source, id) that were accepted already, and listed
        by now.
        """
        ids = tuple(sorted({one.id for one in events}))
        query = EventQuery(
            namespace=namespace,
            now_ms=self.stores.now_ms,
            limit=2 * len(ids),
            conditions=((Column.ID, Condition(Op.IN, ids)),),
            order=ORDER,
        )
        listed = await self.stores.usage.listed_events(query) if ids else []
        return {(one.source, one.id): decode_event(one.text).check for one in listed}

    async def send(self, sendings: Sequence[Sending], principal: Principal) -> list[Sent]:
        """Send events anew; for each what stands then.

        Raises `Problem` (unavailable): it is not known which are in, and asking again is safe.
        """
        now_ms = self.stores.now_ms
        wanted = [one.settlement(principal, now_ms) for one in sendings]
        stands = await self.settlements.begin(wanted)
        going = {
            there.position: (there, sending.event)
            for one, there, sending in zip(wanted, stands, sendings, strict=True)
            if there.same_event(one) and there.state is RefusalState.REDRIVING
        }
        doubtful = await self._take_out_old(going, principal.namespace, now_ms)
        if going:
            texts = [one.text for one, _ in going.values() if one.text is not None]
            await self.gateway.let_in(principal.namespace, texts)
            await self.settlements.finish(list(going))
        found = await self.settlements.settlements([one.position for one in wanted])
        return [_sent(found[one.position], one, doubtful) for one in wanted]

    async def _take_out_old(
        self, going: dict[Position, tuple[Settlement, Event]], namespace: str, now_ms: int
    ) -> Container[Position]:
        """Take out those that were first sent so long ago that a copy may not be known as one: what
        counts is settled, of the others it is not known.
        """
        before_ms = now_ms - self._horizon_ms + HOUR_MS  # the copy is in the log somewhat later
        old = {place: it for place, it in going.items() if it[0].at_ms < before_ms}
        checks = await self.counting(namespace, [event for _, event in old.values()])
        counting = []
        for place, (_, event) in old.items():
            del going[place]
            if checks.get((event.source, event.id)) == event.check:
                counting.append(place)
        await self.settlements.finish(counting)
        return old.keys() - set(counting)


def _sent(stands: Settlement, wanted: Settlement, doubtful: Container[Position]) -> Sent:
    if not stands.same_event(wanted):
        return Sent(stands, sent_message(stands))
    return Sent(stands, doubt_message(stands) if stands.position in doubtful else "")


def refusal_of(listed: ListedEvent, settled: Mapping[Position, Settlement]) -> Refusal | None:
    """A listed event as a refusal; None where it is none."""
    kind = kind_of(listed)
    return None if kind is None else Refusal(kind, listed, settled.get(position_of(listed)))


def conflict(detail: str) -> Problem:
    """409 in words."""
    return Problem(ProblemType.CONFLICT, detail)


def taken(sending: Sending, checks: Mapping[tuple[str, str], bytes]) -> str | None:
    """Why an event would not count, for one with its identity and other contents does already."""
    event = sending.event
    check = checks.get((event.source, event.id))
    if check is None or check == event.check:
        return None
    return (
        f"An event of source {event.source!r} and id {event.id!r} counts already, with other "
        "contents: this one would be a conflict and not count. Give it another id."
    )


def _is_asked_for(refusal: Refusal, query: RefusalQuery) -> bool:
    return (
        refusal.kind in query.kinds
        and refusal.state in query.states
        and all(meets(refusal.listed, *one) for one in query.conditions)
    )
