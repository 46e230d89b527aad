"""Mutations of one event: each makes, from a good one, a text that may or may not be one still.

Which of them is still an event is not said here: `tests.conformance.door.oracle` finds that out.
`name` is the event's own id; it stays in every text whose id could be accepted, so that no two
bodies of a run share an identity by accident.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from tests.conformance.door.good import chosen, good, members_of, text_of

Mutation = Callable[[Random, str], bytes]

REQUIRED: Final = ("specversion", "id", "source", "type", "subject")
OPTIONAL: Final = ("time", "datacontenttype", "dataschema", "traceparent")
# As a value of an attribute; the percent sign is the event's own name.
VALUES: Final = (
    "null", "true", "5", "-1.5e300", "[]", "{}", '["%"]', '{"%":1}', '""', '" %"', '"% "',
    '"%\\u0000"', '"%\\n"', '"%\\u007f"', '"%\\u0085"', '"%\\u00a0"', '"%\\u2028"', '"%\x7f"',
    '"%\x00"', '"%\x0b"', '"%\n"', '"%\\ud800"', '"%\\udc00\\ud800"', '"%\\ud83d\\ude00"',
    '"%\\uD83D"', '"%\\x"', '"%\\u12"', '"%\\', '"%', "%", "'%'", '"%\u200b\ufeff\u202e"',
    '"%\uffff"', '"%\U0010ffff"', '"%é"', '"1.0"', '"1.00"', '"1%"', "1.0", "NaN", "Infinity",
    "-Infinity", "undefined", '"application/json"', '"application/json; %"', '"text/xml"', '"<%/>"',
    '"%\\"\\\\\\/\\b\\f\\t"',
)  # fmt: skip
TIMES: Final = (
    "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59-00:01", "2100-01-01T00:00:00Z",
    "2099-12-31T23:59:59.9999999Z", "2100-01-01T00:30:00+01:00", "2026-02-29T00:00:00Z",
    "2026-01-31T24:00:00Z", "2026-01-31T23:59:60Z", "2026-01-31T00:00:00", "2026-01-31",
    "2026-01-31T00:00Z", "2026-1-31T00:00:00Z", "20260131T000000Z", "2026-01-31T00:00:00+0530",
    "2026-01-31T00:00:00+05", "2026-01-31T00:00:00+24:00", "2026-01-31T00:00:00+23:59",
    "2026-01-31T00:00:00.Z", "2026-01-31T00:00:00,5Z", "2026-01-31T00:00:00." + "9" * 300 + "Z",
    "2026-01-31_00:00:00Z", "2026-W05-6T00:00:00Z", "2026-031T00:00:00Z", " 2026-01-31T00:00:00Z",
    "2026-01-31T00:00:00Z ", "\u0662026-01-31T00:00:00Z", "9999-12-31T23:59:59Z",
    "0000-00-00T00:00:00Z", "10000-01-01T00:00:00Z", "-2026-01-31T00:00:00Z", "1769817600",
    "2026-01-31T00:00:00-00:00", "2026-01-31T00:00:00+00:00:30", "2026-01-31T00:00:00.5+00:60",
    "2016-12-31T23:59:60Z", "2017-01-01T05:29:60.4+0530", "2016-12-31T12:00:60Z", "now", "",
)  # fmt: skip
NUMBERS: Final = (
    "0", "-0", "0.0", "-0.0e0", "1e999", "-1e999", "1e-999", "1E+5", "1e99999999999999999999",
    "9" * 20, "9" * 21, "9" * 400, "-" + "9" * 1_100, "1" * 4_300, "1" * 4_301, "-" + "1" * 4_299,
    "-" + "1" * 4_300, "0." + "3" * 5_000, "1" * 5_000 + ".5", "0." + "0" * 18 + "5",
    "0." + "0" * 17 + "15", "1.0", "1.50", "15e-1", "00", "01", "-", "+1", ".5", "1.", "1.e5", "1e",
    "1e+", "0x10", "1_000", "\u0661", "1,000", "NaN", "-Infinity", "Infinity", "1n", "1e5.5", "--1",
    "1 2", "9007199254740993", "18446744073709551616", "-9223372036854775809",
    "2.2250738585072011e-308",
)  # fmt: skip
NAMES: Final = (
    "namespace", "recordedtime", "n\\u0061mespace", "data_base64", "ID", "Id", "id ", "", "\\u0000",
    "é", "a" * 20, "a" * 21, "a-b", "a_b", "traceparent", "comment", "\\ud800", "\\u0069\\u0064",
    "$", "__proto__", "d\u0430ta", "x" * 70_000,
)  # fmt: skip
NOT_UTF8: Final = (
    b"\x80", b"\xff", b"\xfe\xff", b"\xc3", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80",
    b"\xed\xb0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\xaf",
)  # fmt: skip
BYTES: Final = (
    b"\x00",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\x7f",
    b"\xc3",
    b"9",
    b"-",
    b" ",
    b"e",
)
DEPTHS: Final = (1, 2, 5, 60, 61, 62, 63, 64, 65, 66, 100, 500, 990, 1_000, 3_000, 20_000)


def whole(random: Random, name: str) -> bytes:
    """Nothing is changed."""
    return good(random, name).encode()


def attribute(random: Random, name: str) -> bytes:
    """One attribute has another value."""
    members = members_of(random, name)
    which = chosen(random, REQUIRED + OPTIONAL + ("time", "data"))
    if which == "time":
        members["time"] = f'"{chosen(random, TIMES)}"'
    elif random.random() < 0.1:
        letter = chosen(random, ("a", "é", "\\u00e9", "😀"))
        members[which] = f'"{name}{letter * (int(random.random() * 3) + 1_023 - len(name))}"'
    else:
        value = chosen(random, VALUES)
        if which == "id" and value.startswith('"') and len(value) > 2:
            value = value if "%" in value else f'"%{value[1:]}'
        members[which] = value.replace("%", name)
    return text_of(members).encode()


def membership(random: Random, name: str) -> bytes:
    """A member is missing, or another one is there, or one is there twice."""
    members = members_of(random, name)
    draw = random.random()
    if draw < 0.25:
        del members[chosen(random, REQUIRED)]
        return text_of(members).encode()
    text = text_of(members)
    if draw < 0.5:
        which = chosen(random, tuple(members))
        return f'{text[:-1]},"{which}":{members[which]}}}'.encode()
    if draw < 0.6:
        text = text.replace('"id"', '"\\u0069d"').replace('"subject"', '"s\\u0075bject"')
        return text.encode()
    more = f'"{chosen(random, NAMES)}":{chosen(random, VALUES).replace("%", name)}'
    return f"{text[:-1]},{more}}}".encode()


def number(random: Random, name: str) -> bytes:
    """A number as the value that is summed, or deep in the data, or in the place of anything."""
    members = members_of(random, name)
    token = chosen(random, NUMBERS)
    draw = random.random()
    if draw < 0.5:
        members["data"] = f'{{"value":{token}}}'
    elif draw < 0.7:
        members["data"] = f'{{"value":"{token}","list":[1,{token}]}}'
    elif draw < 0.9:
        members["data"] = f'{{"a":{{"b":[[{token}]]}}}}'
    else:
        members["sampledrate"] = token
    return text_of(members).encode()


def inside(random: Random, name: str) -> bytes:
    """Something odd in the data: texts, names, repeated names."""
    members = members_of(random, name)
    value = chosen(random, VALUES).replace("%", name)
    odd, draw = chosen(random, NAMES), random.random()
    if draw < 0.3:
        members["data"] = f'{{"value":{value},"list":[{value},{value}]}}'
    elif draw < 0.6:
        members["data"] = f'{{"value":1,"{odd}":{value},"a":{{"{odd}":1}}}}'
    elif draw < 0.8:
        members["data"] = f'{{"value":1,"a":{{"{odd}":1,"b":2,"{odd}":{value}}}}}'
    elif draw < 0.9:
        members["data"] = f'{{"value":1,"value":2,"model":"{name}"}}'
    else:
        members["data"] = '{"text":"' + chosen(random, ("a", "é", "\\n", '\\"')) * 3_000 + '"}'
    return text_of(members).encode()


def depth(random: Random, name: str) -> bytes:
    """Nested values, up to far beyond what a stack bears; some are not closed."""
    levels = DEPTHS[int(random.random() * len(DEPTHS))]
    opening, closing = ("[", "]") if random.random() < 0.5 else ('{"a":', "}")
    if random.random() < 0.3:
        opening, closing = '{"a":[', "]}"
    core = chosen(random, ("1", "null", '"x"', '"\\ud800"', "{}", ""))
    nested = opening * levels + core + closing * (levels - (random.random() < 0.1))
    if random.random() < 0.1:
        return nested.encode()
    members = members_of(random, name)
    where = "data" if random.random() < 0.8 else chosen(random, ("id", "extension"))
    members[where] = f'{{"value":1,"deep":{nested}}}' if random.random() < 0.7 else nested
    return text_of(members).encode()


def encoding(random: Random, name: str) -> bytes:
    """Bytes that are no UTF-8, or another encoding of Unicode altogether."""
    body = good(random, name).encode()
    draw = random.random()
    if draw < 0.6:
        at = int(random.random() * len(body))
        return body[:at] + NOT_UTF8[int(random.random() * len(NOT_UTF8))] + body[at:]
    if draw < 0.7:
        return b"\xef\xbb\xbf" + body
    if draw < 0.8:
        return body.decode().encode(
            chosen(random, ("utf-16", "utf-16-le", "utf-32", "latin-1")), "replace"
        )
    if draw < 0.9:
        return body + b"\x00" * (int(random.random() * 4) + 1)
    return body[: int(random.random() * len(body))] + b"\xf0\x9f"


def flips(random: Random, name: str) -> bytes:
    """Bytes changed, put in, taken out or repeated at random places."""
    body = bytearray(good(random, name).encode() if random.random() < 0.8 else inside(random, name))
    for _ in range(1 + int(random.random() ** 3 * 6)):
        at = int(random.random() * len(body)) if body else 0
        draw = random.random()
        if draw < 0.35:
            body[at : at + 1] = BYTES[int(random.random() * len(BYTES))]
        elif draw < 0.6:
            body[at : at + 1] = bytes((int(random.random() * 256),))
        elif draw < 0.75:
            body[at:at] = BYTES[int(random.random() * len(BYTES))]
        elif draw < 0.9:
            del body[at : at + 1 + int(random.random() ** 3 * 20)]
        else:
            body[at:at] = body[at : at + int(random.random() * 40)]
    return bytes(body)


def cut(random: Random, name: str) -> bytes:
    """Cut short, or joined with what does not belong to it."""
    body = good(random, name).encode()
    at = int(random.random() * len(body))
    draw = random.random()
    if draw < 0.4:
        return body[:at]
    if draw < 0.5:
        return body[at:]
    if draw < 0.7:
        return body[:at] + good(random, f"{name}-").encode()[at:]
    return (
        body
        + chosen(
            random,
            (",", "}", "]", "x", "//c", "/**/", "\x0b", "\x00", "{}", "[]", "\n\n ", "\ufeff"),
        ).encode()
    )


SHARES: Final[tuple[tuple[Mutation, int], ...]] = (
    (whole, 12),
    (attribute, 18),
    (membership, 10),
    (number, 10),
    (inside, 10),
    (depth, 6),
    (encoding, 6),
    (flips, 22),
    (cut, 6),
)
MUTATIONS: Final = tuple(mutation for mutation, share in SHARES for _ in range(share))


def mutated(random: Random, name: str) -> bytes:
    """An event's text after one mutation."""
    return MUTATIONS[int(random.random() * len(MUTATIONS))](random, name)
