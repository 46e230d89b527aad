"""What is sent to each operation: its body and its query, with the names of some world in them.

An operation that takes a body, or a query that could name something, must be in these tables: one
that is new and not here fails the tests, so that somebody thinks about what it could show.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from tests.conformance.installation import Caller
from tests.journey.client import Answer
from tests.openapi import Published

Names = Mapping[str, str]
"""The names of things, by the names of paths: those of a world, or of nothing."""

WINDOW: Final = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}


def _event(names: Names) -> Any:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "walls",
        "type": "walls",
        "subject": names["subjectIdOrKey"],
        "data": {"tokens": 7, "model": "sent"},
    }


def _meter(key: str) -> Callable[[Names], Any]:
    words = {
        "key": ("key", "event_type", "value_property", "dimensions", "sum"),
        "slug": ("slug", "eventType", "valueProperty", "groupBy", "SUM"),
    }
    name, kind, value, groups, aggregation = words[key]

    def body(names: Names) -> Any:
        # a key is no id: where the name is one, what it makes is of its own
        own = names["meterId"].lower()
        return {
            name: own,
            "name": "Meter",
            "aggregation": aggregation,
            kind: "walls",
            value: "$.tokens",
            groups: {names["groupByKey"]: f"$.{names['groupByKey']}"},
        }

    return body


def _report(names: Names) -> Any:
    return {
        "slug": names["reportId"],
        "meter_id_or_key": names["meterId"],
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
        "endpoint": {"url": "https://receiver.example.com/usage"},
    }


def _v1_report(names: Names) -> Any:
    return {
        "slug": names["reportId"],
        "meterIdOrSlug": names["meterId"],
        "type": "webhook",
        "schedule": {"interval": "1d", "startAt": "2026-01-01T00:00:00.000Z"},
        "query": {"groupBy": []},
        "endpoint": {"url": "https://receiver.example.com/usage"},
    }


def _same(value: Any) -> Callable[[Names], Any]:
    return lambda _: value


BODIES: Final[dict[str, Callable[[Names], Any]]] = {
    "ingest-metering-events": _event,
    "ingestEvents": _event,
    "create-meter": _meter("key"),
    "createMeter": _meter("slug"),
    "update-meter": _same({"name": "Changed"}),
    "updateMeter": _same({"name": "Changed"}),
    "create-meter-revision": _same({"value_property": "$.other"}),
    "switch-meter-revision": _same({}),
    "preview-meter": lambda _: {
        **WINDOW,
        "meter": {"aggregation": "count", "event_type": "walls"},
        "group_by_dimensions": ["subject"],
    },
    "query-meter": lambda names: {
        "group_by_dimensions": ["subject", "model"],
        "filters": {"dimensions": {"subject": {"eq": names["subjectIdOrKey"]}}},
    },
    "queryMeterPost": lambda names: {
        **WINDOW,
        "subject": [names["subjectIdOrKey"]],
        "groupBy": ["subject", "model"],
    },
    "upsertSubject": lambda names: [{"key": names["subjectIdOrKey"], "displayName": "Changed"}],
    "create-subject": lambda names: {"key": names["subjectId"], "name": "Changed"},
    "update-subject": _same({"name": "Changed"}),
    "erase-subject": _same({"subject": "nobody-here"}),
    "create-session": _same({"key": "mtl_nobody"}),
    "create-api-key": _same({"name": "Another", "scopes": ["status:read"]}),
    "update-api-key": _same({"name": "Changed"}),
    "rotate-api-key": _same({"overlap_seconds": 0}),
    "create-report": _report,
    "createReport": _v1_report,
    "update-report": _same({"endpoint": {"url": "https://changed.example.com/usage"}}),
    "updateReport": _same({"endpoint": {"url": "https://changed.example.com/usage"}}),
    "run-report": _same(WINDOW),
    "preview-report": _same(WINDOW),
    "preview-new-report": lambda names: {
        "report": {"slug": "new", "meter_id_or_key": names["meterId"]},
        **WINDOW,
    },
    "resume-report": _same({"owed": "newest"}),
    "resumeReport": _same({"owed": "newest"}),
    "runReport": _same(WINDOW),
    "create-replay": lambda names: {"subject": names["subjectIdOrKey"]},
    "rotate-report-secret": _same({"overlap_seconds": 0}),
    "audit-span": _same(WINDOW),
    "redrive-refusal": lambda names: {"event": _event(names) | {"id": "mended"}},
    "redrive-refusals": _same({"filter": {"source": "walls"}}),
    "dismiss-refusal": _same({"note": "Changed"}),
}

HARMLESS: Final = frozenset(
    {
        "page", "pageSize", "order", "orderBy", "sort", "limit", "includeDeleted",
        "from", "to", "ingestedAtFrom", "ingestedAtTo", "windowSize", "windowTimeZone",
        "clientId", "meters",
    }
)  # fmt: skip
"""Parameters that name nothing which could be somebody's."""

QUERIES: Final[dict[str, Callable[[Names], Mapping[str, str]]]] = {
    "list-metering-events": lambda names: {"filter[subject]": names["subjectIdOrKey"]},
    "get-event-trace": lambda _: {"source": "walls", "id": "1"},
    "list-usage-events": lambda names: {**WINDOW, "subject": names["subjectIdOrKey"]},
    "list-event-subjects": lambda names: {"filter[key]": names["subjectIdOrKey"]},
    "list-meter-subjects": lambda names: {"contains": names["subjectIdOrKey"][:1]},
    "list-dimension-values": lambda _: WINDOW,
    "list-subjects": lambda names: {"filter[key]": names["subjectIdOrKey"]},
    "list-refusals": lambda names: {"filter[subject]": names["subjectIdOrKey"]},
    "list-meters": lambda names: {"filter[key]": names["meterId"]},
    "list-deliveries": lambda names: {"filter[report]": names["reportId"]},
    "list-replays": lambda names: {"filter[report]": names["reportId"]},
    "list-report-runs": lambda _: {"filter[state]": "succeeded,failed"},
    "list-reports": lambda names: {"filter[meter]": names["meterId"]},
    "list-changes": lambda _: {},
    "compare-meter-revision": lambda _: {"include_equal": "true"},
    "listEvents": lambda names: {"subject": names["subjectIdOrKey"]},
    "listEventsV2": lambda names: {
        "filter": f'{{"subject":{{"$eq":"{names["subjectIdOrKey"]}"}}}}'
    },
    "queryMeter": lambda names: {"subject": names["subjectIdOrKey"], "groupBy": "model", **WINDOW},
    "listReportRuns": lambda names: {"before": names["runId"]},
    "getReportRun": lambda _: {},
}


def asked(caller: Caller, one: Published, names: Names) -> Answer:
    """What an operation answers to somebody about some names."""
    method, path, body = request(one, names)
    media = "application/cloudevents+json" if one.id.lower().startswith("ingest") else ""
    return caller.ask(method, path, body, media)


def request(one: Published, names: Names) -> tuple[str, str, Any]:
    """Method, path with query, and body of an operation, about these names."""
    path = one.path({name: quote(names[name], safe="") for name in one.names})
    body = None
    if one.body is not None:
        assert one.id in BODIES, f"{one.id} takes a body: teach tests/conformance/cases.py"
        body = BODIES[one.id](names)
    if {parameter["name"] for parameter in one.parameters} - HARMLESS:
        assert one.id in QUERIES, f"{one.id} has a query: teach tests/conformance/cases.py"
        query = urlencode(QUERIES[one.id](names))
        path = f"{path}?{query}" if query else path
    return one.method, path, body
