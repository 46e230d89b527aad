"""Binary mode over HTTP: attributes in headers, data in the body (CloudEvents HTTP binding)."""

import json

import pytest

from ingest.binary_mode import event_text, http_attributes
from meterline.problem import Problem

JSON = "application/json"


def text(headers: dict[str, str], body: bytes = b"", media_type: str = JSON) -> dict[str, object]:
    """The event that a request with these headers is, decoded."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    decoded = json.loads(event_text(http_attributes(raw), media_type, body, "ce-"))
    assert isinstance(decoded, dict)
    return decoded


def test_headers_become_attributes_and_the_body_data() -> None:
    headers = {
        "CE-Id": "1",
        "ce-source": "/a%20b",
        "ce-type": '"quoted \\"type\\""',
        "ce-subject": "caf%C3%A9",
        "ce-specversion": "1.0",
        "ce-myextension": "x",
        "Content-Length": "9",
        "Accept": "*/*",
    }
    assert text(headers, b'{"n": 1.10}') == {
        "id": "1",
        "source": "/a b",
        "type": 'quoted "type"',
        "subject": "café",
        "specversion": "1.0",
        "myextension": "x",
        "datacontenttype": JSON,
        "data": {"n": 1.1},
    }


def test_numbers_keep_their_digits() -> None:
    raw = event_text([("id", b"1")], "", b'{"n": 1.10}', "ce-")
    assert raw == b'{"id":"1","data":{"n": 1.10}}'


def test_no_header_of_its_own_is_no_binary_mode() -> None:
    assert http_attributes([(b"Content-Type", b"application/json"), (b"Accept", b"*/*")]) == []
    assert http_attributes([(b"ce-trace", b"1")]) == [], "somebody else's header"


def test_a_data_content_type_that_is_given_stays() -> None:
    assert (
        text({"ce-id": "1", "ce-datacontenttype": "text/plain"})["datacontenttype"] == "text/plain"
    )


@pytest.mark.parametrize(
    ("headers", "body", "field"),
    [
        ({"ce-id": "%FF"}, b"", "ce-id"),
        ({"ce-id": "1"}, b"{", "data"),
        ({"ce-id": "1"}, b'{} , "id": "2"', "data"),
        ({"ce-id": "1"}, b"\xff", "data"),
    ],
)
def test_what_cannot_be_read_is_named(headers: dict[str, str], body: bytes, field: str) -> None:
    with pytest.raises(Problem) as raised:
        text(headers, body)
    assert [fault.field for fault in raised.value.faults] == [field]


def test_a_content_type_that_is_no_text_is_no_json() -> None:
    sent = b"\xff/json".decode(errors="surrogateescape")  # as aiohttp gives such bytes
    assert text({"ce-id": "1"}, b"{}", sent)["datacontenttype"] == "?/json"
