"""Headers of a report: which there may be, what they may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline import limits
from meterline.delivery import (
    authorizes,
    headers_of,
    headers_text,
    name_fault,
    set_fault,
    value_fault,
)


@pytest.mark.parametrize("name", ["X-Api-Key", "Authorization", "X-Tenant", "Cookie", "a!b", "9"])
def test_these_may_be_set(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "hOsT",
        "Content-Type",
        "content-length",
        "Content-Encoding",
        "CONTENT-ANYTHING",
        "svix-id",
        "Svix-Signature",
        "webhook-timestamp",
        "Webhook-Anything",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Expect",
        "HTTP2-Settings",
        "Accept-Encoding",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Forwarded",
        "Via",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-IP",
        "X-Original-URL",
        "X-Amz-Date",
        "X-aws-ec2-metadata-token",
        "X-Goog-Api-Key",
        "X-MS-Version",
        "X-Envoy-Original-Path",
        "CF-Connecting-IP",
        "Metadata",
        "Metadata-Flavor",
    ],
)
def test_these_may_not_and_the_words_name_them(name: str) -> None:
    words = name_fault(name)
    assert words is not None
    assert words.startswith(f"{name} cannot be set: it ")


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "ä", "a\r\nb", "a\n", "x" * 129, "(x)", "x\0", "¹"]
)
def test_these_are_no_names(name: str) -> None:
    assert name_fault(name) is not None


@pytest.mark.parametrize("value", ["a", "Bearer abc.def==", "a b\tc", "x" * 4_096, '"quoted"'])
def test_these_are_values(value: str) -> None:
    assert value_fault(value) is None


@pytest.mark.parametrize(
    "value", ["", " a", "a ", "a\r\nX-Evil: 1", "a\n", "ä", "\x7f", "a\0b", "x" * 4_097]
)
def test_these_are_no_values_and_the_words_do_not_repeat_them(value: str) -> None:
    words = value_fault(value)
    assert words is not None
    assert len(words) < 100


def test_one_name_is_there_once_whatever_its_case() -> None:
    assert set_fault({"X-A": "1", "X-B": "1"}) is None
    assert set_fault({"X-A": "1", "x-a": "2"}) == (
        "x-a",
        "x-a is there twice: case makes no difference",
    )


def test_together_they_have_a_bound() -> None:
    half = "v" * (limits.REPORT_HEADERS_BYTES_MAX // 2)
    assert set_fault({"X-A": half}) is None
    found = set_fault({"X-A": half, "X-B": half})
    assert found is not None
    assert found[0] == "X-B"


def test_authorization_is_found_in_any_case() -> None:
    assert authorizes(["X-A", "AUTHORIZATION"])
    assert not authorizes(["X-Authorization"])


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_sealed_is_what_was_given(headers: dict[str, str]) -> None:
    assert headers_of(headers_text(headers)) == headers


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"X-A": 1}', '{"X-A": null}'])
def test_any_other_text_is_refused_as_a_value_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|data|Expected|truncated") as refused:
        headers_of(text)
    assert "X-A" not in str(refused.value)
