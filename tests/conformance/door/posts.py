"""The requests of a run: request `number` of a seed is always the same.

Each stands for itself, so that one can be made again, alone: to send it a second time, to look at
it after a failure, or to compare two that share an identity.
"""

import gzip
import zlib
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple
from urllib.parse import quote

from tests.conformance.door.good import chosen, good, members_of
from tests.conformance.door.hard import HARD
from tests.conformance.door.mutations import mutated

PATHS: Final = ("/api/v3/metering/events", "/api/v3/openmeter/events", "/api/v1/events")
ONE: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
EITHER: Final = "application/json"
ENCODINGS: Final = ("gzip", "GZIP", "x-gzip", "deflate", "identity", "br", "gzip, gzip", "zstd", "")
MEDIA_TYPES: Final = (
    "", "text/plain", "application/xml", "application/cloudevents+xml", "application/cloudevents",
    "Application/CloudEvents+JSON", "application/cloudevents+json ; charset=utf-8",
    "application/json;charset=latin-1", "application/json, text/plain", "application/jsonx", "*/*",
    ";", "application/cloudevents-batch+json;a=b;c", "a" * 3_000, "application/cloudevents+json\t",
    "multipart/form-data; boundary=x", "é/ü", "\udcff/\udc80", "application/json;\udcff",
)  # fmt: skip
IN_FLIGHT_MAX: Final = 64
"""Requests under way at once, at most."""
RESENT_AFTER: Final = 4 * IN_FLIGHT_MAX
"""A request is sent again so much later at the earliest: then its answer is long here."""
LARGE_BYTES: Final = 256 * 1024
"""Larger requests, and those that inflate to more, go one at a time."""


class Post(NamedTuple):
    """A request to the door. `large`: it, or what it inflates to, costs megabytes."""

    kind: str
    path: str
    body: bytes
    media_type: str | None
    encoding: str | None = None
    chunked: bool = False
    whole: bool = True  # else the sender goes away in the middle of it
    large: bool = False
    attributes: tuple[tuple[str, str], ...] = ()  # headers of CloudEvents' binary mode


class Series:
    """The requests of a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed << 32

    def __getitem__(self, number: int) -> Post:
        """Request `number`, from 0: the hard ones first, then what is drawn."""
        if number < len(HARD):
            return hard(HARD_NAMES[number], "hard")
        random = Random(self._seed + number)
        name = f"{number:x}-{random.getrandbits(48):012x}"
        kind = KINDS[int(random.random() * len(KINDS))]
        if kind is again:
            return self._again(random, number)
        return kind(random, name)

    def _again(self, random: Random, number: int) -> Post:
        """An earlier request, as it was or with one more blank, by whichever way."""
        oldest = max(len(HARD), number - 50_000)
        if oldest >= number - RESENT_AFTER:
            return single(random, f"{number:x}")
        post = self[oldest + int(random.random() * (number - RESENT_AFTER - oldest))]
        if random.random() < 0.5 and post.encoding is None and not post.large:
            post = post._replace(body=altered(random, post.body))
        return post._replace(kind="again", path=chosen(random, PATHS))


Kind = Callable[[Random, str], Post]


def altered(random: Random, body: bytes) -> bytes:
    """What says the same in other bytes, or something else of the same event."""
    if random.random() < 0.5:
        return body.replace(b",", b" ,\n ").replace(b"12.5", b"12.50e0")
    return body.replace(b"customer-", b"customer-of-").replace(b"null", b"{}")


def single(random: Random, name: str) -> Post:
    """One event, nearly always as what it is."""
    body = mutated(random, name)
    draw = random.random()
    media_type = ONE if draw < 0.6 else EITHER if draw < 0.95 else BATCH
    return Post(
        "one event", chosen(random, PATHS), body, media_type, chunked=random.random() < 0.05
    )


def batch(random: Random, name: str) -> Post:
    """Some events, good ones and others, some of them twice."""
    size = 1 + int(random.random() ** 4 * 60)
    bad = random.random() < 0.4
    texts = []
    for place in range(size):
        own = f"{name}-{place}"
        if bad and random.random() < 1.5 / size:
            texts.append(mutated(random, own))
        else:
            texts.append(good(random, own).encode())
    if random.random() < 0.1:
        texts.append(altered(random, texts[0]))
    comma = b"," if random.random() < 0.9 else b" ,\r\n\t"
    body = b"[" + comma.join(texts) + b"]"
    draw = random.random()
    media_type = BATCH if draw < 0.6 else EITHER if draw < 0.95 else ONE
    return Post("batch", chosen(random, PATHS), body, media_type, chunked=random.random() < 0.05)


def nothing(random: Random, _: str) -> Post:
    """Batches of nothing, and of what is no event."""
    element = chosen(
        random, ("", "null", "0", "[]", "{}", '""', "[[", '{"specversion":"1.0"}', " ", "-")
    )
    count = int(random.random() ** 6 * 3_000)
    body = f"[{','.join([element] * count)}]"
    return Post("nothing", chosen(random, PATHS), body.encode(), chosen(random, (BATCH, EITHER)))


def noise(random: Random, _: str) -> Post:
    """Random bytes, or random tokens of JSON."""
    if random.random() < 0.5:
        body = random.randbytes(int(random.random() ** 3 * 400))
    else:
        tokens = [chosen(random, TOKENS) for _ in range(int(random.random() ** 2 * 60))]
        body = "".join(tokens).encode()
    return Post("noise", chosen(random, PATHS), body, chosen(random, (ONE, BATCH, EITHER)))


TOKENS: Final = (
    "{", "}", "[", "]", ",", ":", '"id"', '"source"', '"type"', '"subject"', '"specversion"',
    '"data"', '"1.0"', "null", "true", "1", "-", "e5", " ", "\n", '"', "\\u",
)  # fmt: skip


def labelled(random: Random, name: str) -> Post:
    """A content type that is odd, wrong or missing."""
    post = single(random, name) if random.random() < 0.7 else batch(random, name)
    media_type = None if random.random() < 0.2 else chosen(random, MEDIA_TYPES)
    return post._replace(kind="content type", media_type=media_type)


def encoded(random: Random, name: str) -> Post:
    """A body that is compressed, rightly or not."""
    post = single(random, name) if random.random() < 0.6 else batch(random, name)
    encoding = chosen(random, ENCODINGS)
    body = _compressed(random, post.body, encoding)
    draw = random.random()
    at = int(random.random() * (len(body) + 1))
    if draw < 0.1:
        body = body[:at]
    elif draw < 0.25:
        body = body[:at] + random.randbytes(1) + body[at + 1 :]
    elif draw < 0.3:
        body += random.randbytes(3)
    elif draw < 0.4:
        encoding = chosen(random, ENCODINGS)
    return post._replace(kind="encoding", body=body, encoding=encoding)


def _compressed(random: Random, body: bytes, encoding: str) -> bytes:
    if "gzip" in encoding.lower():
        if random.random() < 0.2:
            at = int(random.random() * (len(body) + 1))
            return gzip.compress(body[:at], 1, mtime=0) + gzip.compress(body[at:], 1, mtime=0)
        return gzip.compress(body, 1, mtime=0)
    if encoding == "deflate":
        return (
            zlib.compress(body, 1) if random.random() < 0.7 else zlib.compress(body, 1, wbits=-15)
        )
    return body


def binary(random: Random, name: str) -> Post:
    """An event whose attributes are headers: good ones, odd ones, some twice, some missing."""
    members = {**members_of(random, name), "traceparent": f'"{name}"'}
    data = members.pop("data", "").encode()
    attributes = [(f"ce-{key}", value.strip('"')) for key, value in members.items()]
    draw = random.random()
    if draw < 0.2:
        attributes.append((chosen(random, ATTRIBUTES), chosen(random, VALUES).replace("%%", name)))
    elif draw < 0.4:
        at = int(random.random() * len(attributes))
        value = attributes[at][1] if attributes[at][0] == "ce-id" else ""
        attributes[at] = (attributes[at][0], value + chosen(random, VALUES).replace("%%", name))
    elif draw < 0.5:
        del attributes[int(random.random() * len(attributes))]
    elif draw < 0.6:
        attributes = [(key.upper(), f'"{quote(value)}"') for key, value in attributes]
    if random.random() < 0.2:
        data = mutated(random, name)
    attributes = [(key, value) for key, value in attributes if value != "null"]
    media_type = None if draw > 0.95 else chosen(random, DATA_TYPES)
    path = chosen(random, PATHS)
    return Post("binary mode", path, data, media_type, attributes=tuple(attributes))


ATTRIBUTES: Final = (
    "ce-id", "CE-Source", "ce-", "ce-data", "ce-namespace", "ce-recordedtime", "ce-data_base64",
    "ce-datacontenttype", "ce-dataschema", "ce-time", "ce-extension", "ce-a-b", "ce-" + "a" * 21,
)  # fmt: skip
VALUES: Final = (
    "", "%%", "%25", "%C3%A9", "%ff", "%00", "%0a", "%", "%zz", '"%%"', '"', '"a\\"b"', "é",
    "\udcff", "%ED%A0%80", "%F0%9F%98%80", "a" * 1_024, "application/json", "2026-01-31T00:00:00Z",
    "{}", ",",
)  # fmt: skip
DATA_TYPES: Final = (
    *["application/json"] * 12, "application/json; charset=utf-8", "APPLICATION/JSON", "text/plain",
    "", "application/xml", "\udcff", "application/cloudevents", "application/cloudevents+json",
)  # fmt: skip


def parted(random: Random, name: str) -> Post:
    """Its sender goes away before the end."""
    post = batch(random, name)
    return post._replace(kind="gone sender", whole=False)


def again(_: Random, name: str) -> Post:
    """Stands for an earlier request, which only the series knows."""
    raise AssertionError(name)


def large(random: Random, name: str) -> Post:
    """Megabytes, drawn among the hard ones."""
    return hard(chosen(random, HARD_NAMES), name)


def hard(kind: str, name: str) -> Post:
    """The hard body of this kind."""
    body, encoding = HARD[kind](name)
    return Post(kind, PATHS[0], body, EITHER, encoding, large=True)


HARD_NAMES: Final = tuple(HARD)


SHARES: Final[tuple[tuple[Kind, int], ...]] = (
    (single, 2_600),
    (batch, 500),
    (again, 300),
    (noise, 100),
    (nothing, 80),
    (labelled, 120),
    (encoded, 140),
    (binary, 140),
    (parted, 19),
    (large, 1),
)
KINDS: Final = tuple(kind for kind, share in SHARES for _ in range(share))
