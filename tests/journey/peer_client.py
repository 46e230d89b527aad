"""An integration as someone has it with the peer: written against its published Python client
(package `openmeter`) and nothing else. Only the base address is ours.

    python tests/journey/peer_client.py http://127.0.0.1:8888

Every call of the client reads its answer as the peer's, or raises; so does this script where an
answer says something else than the peer's would.
"""

import datetime as dt
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from corehttp.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from openmeter import Client
from openmeter.models import (
    Event,
    Metadata,
    MeterAggregation,
    MeterCreate,
    MeterQueryRequest,
    MeterQueryRow,
    MeterUpdate,
    SubjectUpsert,
    WindowSize,
)

TYPE = "prompt"
COUNTED_WITHIN_S = 180.0
HOUR = dt.timedelta(hours=1)
# The hour before last, so that its windows are over; listed events go back 72 hours.
START = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR


def _event(subject: str, minute: int, model: str, tokens: object) -> Event:
    return Event(
        id=str(uuid.uuid4()),
        source="peer-client",
        specversion="1.0",
        type=TYPE,
        subject=subject,
        time=START + dt.timedelta(minutes=minute),
        data={"model": model, "tokens": tokens, "size": {"name": model[0]}},
    )


EVENTS = [
    _event("customer-1", 0, "small", 5),
    _event("customer-1", 0, "large", "10.5"),
    _event("customer-1", 59, "small", 3),
    _event("customer-2", 60, "small", 100),
]


def refused_with(
    kind: type[HttpResponseError], status: int, ask: Callable[[], object]
) -> HttpResponseError:
    """The error that a call ends with."""
    refusal: HttpResponseError | None = None
    try:
        ask()
    except kind as error:
        refusal = error
    assert refusal is not None, "it was not refused"
    assert refusal.status_code == status, refusal
    return refusal


def define_meters(client: Client) -> None:
    """Create, get, list and update."""
    made = client.meters.create(
        MeterCreate(
            slug="tokens_total",
            name="Tokens",
            description="Of prompts",
            aggregation=MeterAggregation.SUM,
            event_type=TYPE,
            value_property="$.tokens",
            group_by={"model": "$.model"},
            metadata=Metadata({"team": "ml"}),
        )
    )
    assert (made.slug, made.aggregation, made.event_type) == ("tokens_total", "SUM", TYPE)
    assert made.created_at == made.updated_at
    for name in (made.id, "tokens_total"):
        found = client.meters.get(name)
        assert (found.id, found.group_by) == (made.id, {"model": "$.model"})
    again = MeterCreate(slug="tokens_total", aggregation="COUNT", event_type=TYPE)
    refused_with(ResourceExistsError, 409, lambda: client.meters.create(again))
    bad = MeterCreate(slug="Not A Slug", aggregation="SUM", event_type=TYPE)
    problem = refused_with(HttpResponseError, 400, lambda: client.meters.create(bad)).model
    assert problem is not None
    assert problem.status == 400
    assert problem.detail
    client.meters.create(MeterCreate(slug="prompts", aggregation="COUNT", event_type=TYPE))
    assert [one.slug for one in client.meters.list()] == ["tokens_total", "prompts"]
    listed = client.meters.list(order_by="key", order="ASC", page=1, page_size=1)
    assert [one.slug for one in listed] == ["prompts"]
    after = client.meters.update(
        "tokens_total", MeterUpdate(name="All tokens", description="Of every prompt")
    )
    assert (after.id, after.name, after.description) == (made.id, "All tokens", "Of every prompt")


def ingest(client: Client) -> None:
    """One event, many, and an array of one as plain JSON."""
    client.events.ingest_event(EVENTS[0])
    client.events.ingest_events(EVENTS[1:3])
    client.events.ingest_events_json(EVENTS[3:])
    client.events.ingest_events(EVENTS[:1])  # sent again: it counts once


def query(client: Client) -> None:
    """By window, by group, by subject; as GET, as POST, as CSV."""
    until(lambda: _total(client), 118.5)
    end = START + 2 * HOUR
    ask = partial(client.meters.query_json, "tokens_total", from_parameter=START, to=end)
    hours = ask(window_size=WindowSize.HOUR)
    assert hours.window_size == "HOUR"
    assert [_told(row) for row in hours.data] == [(START, 18.5), (START + HOUR, 100)]
    groups = ask(group_by=["model", "subject"])
    assert {(row.subject, row.group_by["model"]): row.value for row in groups.data} == {
        ("customer-1", "small"): 8,
        ("customer-1", "large"): 10.5,
        ("customer-2", "small"): 100,
    }
    one = ask(subject=["customer-1"], window_size="MINUTE")
    minutes = [START, START + dt.timedelta(minutes=59)]
    assert [row.window_start for row in one.data] == minutes
    assert {row.subject for row in one.data} == {"customer-1"}
    asked = MeterQueryRequest(
        from_property=START,
        to=end,
        window_size="DAY",
        group_by=["model"],
        filter_group_by={"model": ["large"]},
    )
    assert [row.value for row in client.meters.query("tokens_total", asked).data] == [10.5]
    # a meter made after another may be taken up some seconds later
    until(lambda: _total(client, "prompts"), 4)
    table: Any = client.meters.query_csv(
        "tokens_total", window_size="HOUR", from_parameter=START, to=end
    )
    # its type says `str`; what it gives are pieces of bytes
    header, *lines = (table if isinstance(table, str) else b"".join(table).decode()).split()
    assert header == "window_start,window_end,subject,value"
    assert [line.rsplit(",", 1)[1] for line in lines] == ["18.500000", "100.000000"]


def regroup(client: Client) -> None:
    """Other group-by keys of a meter hold for what was sent before, too."""
    keys = {"model": "$.model", "initial": "$.size.name"}
    after = client.meters.update("tokens_total", MeterUpdate(group_by=keys))
    assert after.group_by == {"model": "$.model"}  # until the others are filled in
    until(lambda: client.meters.get("tokens_total").group_by, keys)

    def by_initial() -> dict[str, float]:
        answer = client.meters.query_json("tokens_total", group_by=["initial"])
        return {row.group_by["initial"]: row.value for row in answer.data}

    until(by_initial, {"s": 108, "l": 10.5})


def until(ask: Callable[[], object], expected: object) -> None:
    """Ask until what was sent is counted."""
    deadline = time.monotonic() + COUNTED_WITHIN_S
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"{answer} is counted"
        time.sleep(0.2)


def _total(client: Client, meter: str = "tokens_total") -> float:
    return sum(row.value for row in client.meters.query_json(meter).data)


def _told(row: MeterQueryRow) -> tuple[dt.datetime, float]:
    return row.window_start, row.value


def list_events(client: Client) -> None:
    """The events that were sent, as v1 and v2 list them; subjects and values of groups."""
    listed = client.events.list(from_parameter=START, limit=100)
    assert {one.event.id for one in listed} == {event.id for event in EVENTS}
    assert all(one.validation_error is None and one.stored_at for one in listed)
    first = next(one.event for one in listed if one.event.id == EVENTS[0].id)
    assert (first.subject, first.time, first.data) == (
        "customer-1",
        EVENTS[0].time,
        EVENTS[0].data,
    )
    mine = client.events.list(subject="customer-2", from_parameter=START)
    assert [one.event.id for one in mine] == [EVENTS[3].id]
    assert {one.event.id for one in client.events_v2.list(limit=2)} == {e.id for e in EVENTS}
    assert sorted(client.meters.list_subjects("tokens_total")) == ["customer-1", "customer-2"]
    values = client.meters.list_group_by_values("tokens_total", "model", from_parameter=START)
    assert sorted(values) == ["large", "small"]


def describe_subjects(client: Client) -> None:
    """Upsert, list, get and delete."""
    # two resources of the client are called so; its types tell of the other one
    subjects: Any = client.subjects
    both = subjects.upsert(
        [
            SubjectUpsert(key="customer-1", display_name="One", metadata={"hubspotId": "1"}),
            SubjectUpsert(key="customer-2", stripe_customer_id="cus_2"),
        ]
    )
    assert [one.key for one in both] == ["customer-1", "customer-2"]
    (after,) = subjects.upsert([SubjectUpsert(key="customer-1", display_name="First")])
    assert (after.id, after.display_name) == (both[0].id, "First")
    assert after.metadata == {"hubspotId": "1"}
    assert [one.display_name for one in subjects.list()] == ["First", None]
    assert subjects.get("customer-2").stripe_customer_id == "cus_2"
    subjects.delete(both[1].id)
    refused_with(ResourceNotFoundError, 404, lambda: subjects.get("customer-2"))


def delete_meters(client: Client) -> None:
    """Delete; what is deleted is gone."""
    client.meters.delete("prompts")
    refused_with(ResourceNotFoundError, 404, lambda: client.meters.get("prompts"))
    assert [one.slug for one in client.meters.list()] == ["tokens_total"]


STEPS = (define_meters, ingest, query, regroup, describe_subjects, list_events, delete_meters)


def main() -> None:
    """The whole way, on a server that is new."""
    (address,) = sys.argv[1:]
    with Client(endpoint=address, token="any") as client:
        for step in STEPS:
            step(client)
            sys.stdout.write(f"{step.__name__}\n")


if __name__ == "__main__":
    main()
