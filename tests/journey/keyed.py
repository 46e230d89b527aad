"""A set-up in mode `keys`: who shows which key, and every secret that was told on the way."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

from meterline.access import SECRET_BYTES, Scope, Token, parse_token, token_of
from tests.journey.client import Answer, Server
from tests.journey.deadline import until
from tests.journey.processes import run_command
from tests.journey.receiver import Mailbox, Receiver
from tests.journey.setups import SetUp

V3 = "/api/v3/metering"
EVENTS, METERS, KEYS = f"{V3}/events", f"{V3}/meters", f"{V3}/api-keys"
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
TIGHT = {"requests": {"quota": 8, "window_s": 8}, "events": {"quota": 10, "window_s": 10}}
SETTINGS = {
    "METERLINE_ACCESS_MODE": "keys",
    "METERLINE_WEBHOOK_NETWORKS_ALLOWED": "127.0.0.0/8",
    "METERLINE_PLANS": json.dumps({"tight": TIGHT}),
    "METERLINE_LOG_LEVEL": "debug",  # whatever can be told is told
}
OPERATOR = [f"--scope={scope}" for scope in Scope]
CALLS = 5
KNOWN_WITHIN_S = 60.0
METER = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.value",
}
TRACED = {**METER, "key": "traced", "event_type": "traced", "dimensions": {"trace": "$.trace"}}


def event(number: int, subject: str, value: int = 1) -> dict[str, object]:
    """An event of the 31st of January; subject and number are its identity."""
    return {
        "specversion": "1.0",
        "id": f"{subject}-{number}",
        "source": "keys",
        "type": "call",
        "subject": subject,
        "time": "2026-01-31T09:15:00Z",
        "data": {"value": value},
    }


def traced(number: int, subject: str) -> dict[str, object]:
    """An event of `TRACED`, with a value of its group-by key that no other one has."""
    data = {"value": 1, "trace": f"trace-{number}"}
    return event(number, subject) | {"type": "traced", "data": data}


def unknown_token() -> Token:
    """A key that nobody ever made."""
    return token_of("01M7ZMF4YA7D2SQ292V0W9JPT8", token_bytes(SECRET_BYTES))


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """Whoever shows one key, at both doors."""

    token: Token
    ingest: Server
    control: Server

    def send(self, *events: object) -> Answer:
        """Post a batch to the door."""
        return self.ingest.ask("POST", EVENTS, json.dumps(events).encode(), BATCH)

    def asked(self) -> Answer:
        """Ask for the meters."""
        return self.control.ask("GET", METERS)

    def is_let_in(self) -> bool:
        """Does the door know this key, and let it send?"""
        return self.send().status == 202

    def made(self, path: str, body: object) -> Any:
        """Make something; its document."""
        return self.control.made(V3 + path, body)

    def listed(self, path: str, query: str = "") -> list[Any]:
        """Everything in a list; it fits on one page."""
        shown = self.control.get(f"{V3}{path}?page[size]=100&{query}").json
        assert shown["meta"]["page"].get("next") is None, path
        data: list[Any] = shown["data"]
        return data

    def totals(self, meter: str = "calls") -> dict[str, tuple[str, int]]:
        """By subject, what a meter says: its value, and how many events."""
        asked = self.control.ask(
            "POST", f"{METERS}/{meter}/query", {"group_by_dimensions": ["subject"]}
        )
        if asked.status != 200:
            raise OSError(asked.body)
        rows = asked.json["data"]
        return {row["dimensions"]["subject"]: (row["value"], row["counted"]) for row in rows}


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """A set-up whose doors ask for keys. `told` are all secrets that it gave out or was shown."""

    setup: SetUp
    told: list[str] = field(default_factory=list)

    def command(self, *arguments: str) -> str:
        """`meterline keys`, on the machine of the product; what it printed to stdout."""
        process = self.setup.processes["up" if self.setup.name == "embedded" else "control"]
        return run_command(["keys", *arguments], self.setup.folder, process.environment)

    def created(self, *options: str) -> Caller:
        """Who has a new key, made by the command."""
        return self.caller(self.command("create", *options).removesuffix("\n"))

    def given(self, giver: Caller, scopes: Sequence[str], **more: object) -> Caller:
        """Who has a new key, made by the API in the namespace of the giver."""
        body = {"name": ", ".join(scopes), "scopes": list(scopes), **more}
        return self.caller(giver.made("/api-keys", body)["key"])

    def rotated(self, giver: Caller, key_id: str, overlap_s: int) -> tuple[Caller, Any]:
        """Who has the new secret of a key, and what the answer said."""
        body = {"overlap_seconds": overlap_s}
        answer = giver.control.ask("POST", f"{KEYS}/{key_id}/rotate", body)
        assert answer.status == 200, answer.body
        assert answer.headers["cache-control"] == "no-store"
        return self.caller(answer.json["key"]), answer.json

    def caller(self, text: str) -> Caller:
        """Who shows this key, which is kept in mind as a secret."""
        token = parse_token(text)
        assert token is not None, text
        self.told.append(token.secret)
        ingest, control = self.setup.ingest.url, self.setup.control.url
        return Caller(token, Server(ingest, text), Server(control, text))

    def reported(self, caller: Caller, mailbox: Mailbox) -> Any:
        """A run of the report `daily` of calls by acme on the 31st of January, to a mailbox."""
        report = {
            "slug": "daily",
            "meter_id_or_key": "calls",
            "type": "webhook",
            "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
            "endpoint": {"url": mailbox.url},
            "filter": {"subject": {"$eq": "acme"}},
        }
        caller.made("/reports", report)
        secret = caller.control.get(f"{V3}/reports/daily/secret").json
        mailbox.secret = secret["signing_secret"]
        self.told.append(mailbox.secret.removeprefix("whsec_"))
        window = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
        return caller.made("/reports/daily/runs", window)


@dataclass(frozen=True, slots=True)
class House:
    """A namespace: whoever has all rights in it, what its events are worth, where reports go."""

    admin: Caller
    worth: int
    mailbox: Mailbox

    def has_counted(self) -> bool:
        """Does its meter say of acme what `live` sent here, of the two that sent the same?"""
        return self.admin.totals().get("acme") == (str(self.worth * CALLS), CALLS)

    def has_mail(self) -> bool:
        """Was anything delivered, or tried to be?"""
        return bool(self.mailbox.delivered or self.mailbox.refused)


def houses(keyed: Keyed, receiver: Receiver) -> tuple[House, House]:
    """Two namespaces that send the same events with other contents, and have them reported."""

    def house(namespace: str, worth: int, rights: Sequence[str]) -> House:
        admin = keyed.created("--name", "admin", "--namespace", namespace, *rights)
        until("a new key is known", 60, lambda: passes(admin))
        admin.made("/meters", METER)
        answer = admin.send(*(event(number, "acme", worth) for number in range(CALLS)))
        assert answer.status == 202, answer.body
        mailbox = receiver.mailbox(f"keys-{keyed.setup.name}-{namespace}")
        keyed.reported(admin, mailbox)
        return House(admin, worth, mailbox)

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(house, ("default", "other"), (1, 10), (OPERATOR, ()))
    return one, other


def known(caller: Server) -> None:
    """Wait until a server knows a key that a command has made: it looks for new ones once a second,
    and refuses one that it has not read yet.
    """

    def is_known() -> bool:
        return caller.ask("GET", METERS).status not in {401, 503}

    until("the key is known", KNOWN_WITHIN_S, is_known)


def passes(caller: Caller) -> bool:
    """Does each door know this key?"""
    return caller.is_let_in() and caller.asked().status == 200
