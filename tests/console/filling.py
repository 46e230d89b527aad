"""What the server of the console's tests has: some usage, and each kind of trouble."""

from typing import Any, Final

from tests.journey.client import Server
from tests.journey.deadline import until

API: Final = "/api/v3/metering"
BATCH: Final = {"Content-Type": "application/cloudevents-batch+json"}
DAYS: Final = 5
LONG: Final = "customer-" + "x" * 81  # 90 characters
SCRIPT: Final = "<script>document.title = 'broken'</script>"
ARABIC: Final = "عميل الاختبار"
FILLED_WITHIN_S: Final = 180.0
AWAY: Final = "http://127.0.0.1:9/"  # nothing listens at the discard port


def event(number: int, subject: str, day: int, tokens: object, model: str = "large") -> Any:
    """An event of January 2026."""
    return {
        "specversion": "1.0",
        "id": f"r-{number}",
        "source": "chat-api",
        "type": "completion",
        "subject": subject,
        "time": f"2026-01-{day:02}T10:00:00Z",
        "data": {"tokens": tokens, "model": model},
    }


def fill(server: Server) -> None:
    """Make a meter and a sync, send events, and wait until they are counted and the run has met
    the receiver that is away.
    """
    server.made(
        f"{API}/meters",
        {
            "key": "tokens",
            "name": "Tokens used",
            "aggregation": "sum",
            "event_type": "completion",
            "value_property": "$.tokens",
            "dimensions": {"model": "$.model"},
        },
    )
    events = [event(day, "acme", day, 1000 + day) for day in range(1, DAYS + 1)]
    events += [event(10 + day, "globex", day, 10, "small") for day in range(1, DAYS + 1)]
    events += [event(20, LONG, 2, 1), event(21, SCRIPT, 2, 2), event(22, ARABIC, 2, 3)]
    events += [event(30, "acme", 3, "many"), event(1, "acme", 1, 1001)]  # unusable; a duplicate
    events += [event(2, "acme", 2, 77)]  # a conflict
    answer = server.ask("POST", f"{API}/events", events, BATCH)
    assert answer.status == 202, answer.body
    server.made(
        f"{API}/reports",
        {
            "slug": "tokens-daily",
            "meter_id_or_key": "tokens",
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "query": {"group_by_dimensions": ["model"]},
            "endpoint": {"url": AWAY},
        },
    )
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    asked = server.ask("POST", f"{API}/reports/tokens-daily/runs", window)
    assert asked.status in {200, 201, 202}, asked.body
    until("the run has met its receiver", FILLED_WITHIN_S, lambda: _is_down(server))


def _is_down(server: Server) -> bool:
    report = server.get(f"{API}/reports/tokens-daily").json
    return bool(report["status"]["receiver"]["state"] == "down")
