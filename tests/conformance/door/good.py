"""Good events, as text: what every mutation starts from."""

from random import Random
from typing import Final

COUNTED_TYPE: Final = "fuzz"
"""The type of most events, which the meters of the run count."""

TYPES: Final = (COUNTED_TYPE, COUNTED_TYPE, COUNTED_TYPE, "other", "é€😀")
SOURCES: Final = ("fuzz", "https://example.com/fuzz?a=1#b", "urn:fuzz:ü", "x" * 1_024)
TIMES: Final = (
    '"2026-01-31T12:00:00Z"',
    '"2026-01-31t12:00:00.123z"',
    '"2026-01-31 12:00:00.123456789+02:00"',
    '"2024-02-29T23:59:59.999999-23:59"',
    '"1970-01-01T00:00:00Z"',
    '"2099-12-31T23:59:59.999Z"',
    "null",
)
DATA: Final = (
    "null",
    "{}",
    '{"value":1}',
    '{"value":"12.5","model":"large"}',
    '{"value":0.000000000000000001,"route":"/v1/chat","nested":{"list":[1,2,[3,{"a":null}]]}}',
    '{"value":99999999999999999999.999999999999999999,"é":"\\u00e9\\ud83d\\ude00\\n\\u0000"}',
    '{"value":-1.5e-3,"text":"quotes \\" and \\\\ and \\/","empty":"","":[],"true":true}',
    '{"value":"not a number","a":{"b":{"c":{"d":{"e":{"f":{}}}}}}}',
    '{"value":null,"model":"smäll","list":[null,true,false,0,-0,0.0,1E+5,"",{}]}',
)
EXTRAS: Final = (
    '"datacontenttype":"application/json"',
    '"datacontenttype":null',
    '"dataschema":"https://example.com/schema"',
    '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"',
    '"sampledrate":5',
    '"flag":true,"partitionkey":null',
    '"empty":""',
)


def chosen(random: Random, among: tuple[str, ...]) -> str:
    """One of them; cheaper than `Random.choice`, which a million bodies call many times."""
    return among[int(random.random() * len(among))]


def members_of(random: Random, name: str) -> dict[str, str]:
    """A good event: each member's name, and its value as JSON text. `name` is the event's id."""
    members = {
        "specversion": '"1.0"',
        "id": f'"{name}"',
        "source": f'"{chosen(random, SOURCES)}"',
        "type": f'"{chosen(random, TYPES)}"',
        "subject": f'"customer-{int(random.random() * 1_000)}"',
    }
    if random.random() < 0.6:
        members["time"] = chosen(random, TIMES)
    if random.random() < 0.8:
        members["data"] = chosen(random, DATA)
    return members


def text_of(members: dict[str, str]) -> str:
    """The JSON text of an event."""
    return "{" + ",".join([f'"{name}":{value}' for name, value in members.items()]) + "}"


def good(random: Random, name: str) -> str:
    """A good event's text: in some order, with some white space, with some optional members."""
    members = members_of(random, name)
    draw = random.random()
    if draw < 0.2:
        shuffled = [*members.items()]
        random.shuffle(shuffled)
        members = dict(shuffled)
    text = text_of(members)
    if 0.2 < draw < 0.5:
        text = f"{text[:-1]},{chosen(random, EXTRAS)}}}"
    if 0.5 < draw < 0.6:
        text = text.replace(":", " :\n\t", 3).replace(",", "\r\n, ", 2)
    return text
