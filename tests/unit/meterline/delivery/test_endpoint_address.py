"""Endpoints: what a URL must be, and its password apart from it."""

import pytest

from meterline.delivery import Endpoint, basic_authorization, parse_endpoint


@pytest.mark.parametrize(
    ("text", "url", "user_info"),
    [
        ("https://example.com/hook", "https://example.com/hook", None),
        ("https://example.com", "https://example.com/", None),
        ("http://127.0.0.1:9000/a?b=c#d", "http://127.0.0.1:9000/a?b=c", None),
        ("https://me:p%40ss@example.com/x", "https://example.com/x", "me:p@ss"),
        ("https://me@[::1]:8443/x", "https://[::1]:8443/x", "me"),
        ("https://a@b@example.com/", "https://example.com/", "a@b"),
        ("https://@example.com/", "https://example.com/", ""),
    ],
)
def test_a_url_is_taken_apart(text: str, url: str, user_info: str | None) -> None:
    assert parse_endpoint(text) == Endpoint(url, user_info)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/hook",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@/x",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://exa mple.com/",
        "https://example.com\\@evil.com/",
        "https://example.com/\r\nX: y",
        "https://[::1/",
        "http://127.1:9110/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.1.:80/",
        "http://1.2.3.4.5/",
        "http://256.0.0.1/",
        "http://host.123/",
        "https://example.com/" + "x" * 2_048,
    ],
)
def test_what_is_no_endpoint_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        parse_endpoint(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["a1.example", "1.example.com", "0x.example", "x0x1", "1e100.net"])
def test_a_name_may_have_digits(host: str) -> None:
    assert parse_endpoint(f"https://{host}/").url == f"https://{host}/"


def test_basic_authorization() -> None:
    assert basic_authorization("Aladdin:open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert basic_authorization("user") == "Basic dXNlcjo="
