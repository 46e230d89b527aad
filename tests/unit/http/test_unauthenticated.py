import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from meterline.access import ANONYMOUS, Principal, Scope
from meterline.http.gate import Gate
from meterline.http.unauthenticated import UnauthenticatedCallers
from meterline.limits import STRANGER_REQUESTS_MAX, STRANGER_WINDOW_S
from meterline.problem import Problem, ProblemType

NOW_MS = 1_700_000_000_000


class Hand:
    """A clock that stands."""

    def __init__(self) -> None:
        self.at_ms = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


def identify(shown: str | None, _now_ms: int) -> Principal:
    if shown == "Bearer good":
        return ANONYMOUS
    raise Problem(ProblemType.UNAUTHENTICATED, "no key")


def request(shown: str) -> web.Request:
    return make_mocked_request("GET", "/", headers={"Authorization": shown})


def test_a_stranger_is_limited_and_a_good_key_of_the_same_address_is_not() -> None:
    clock = Hand()
    gate = Gate(clock, identify)
    for _ in range(STRANGER_REQUESTS_MAX):
        with pytest.raises(Problem) as caught:
            gate.enter(request("Bearer bad"), Scope.USAGE_READ)
        assert caught.value.type is ProblemType.UNAUTHENTICATED
    with pytest.raises(Problem, match="Check the key") as caught:
        gate.enter(request("Bearer bad"), Scope.USAGE_READ)
    assert caught.value.type is ProblemType.RATE_LIMITED
    assert caught.value.retry_after_s == 1
    assert gate.enter(request("Bearer good"), Scope.USAGE_READ) is ANONYMOUS
    clock.at_ms += STRANGER_WINDOW_S * 1_000
    with pytest.raises(Problem) as caught:
        gate.enter(request("Bearer bad"), Scope.USAGE_READ)
    assert caught.value.type is ProblemType.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        (None, "", True),
    ],
)
def test_addresses_are_counted_apart_and_sites_of_ipv6_together(
    one: str | None, other: str | None, same: bool
) -> None:
    unauthenticated = UnauthenticatedCallers()
    for _ in range(STRANGER_REQUESTS_MAX):
        unauthenticated.count(one, NOW_MS)
    if same:
        with pytest.raises(Problem):
            unauthenticated.count(other, NOW_MS)
    else:
        unauthenticated.count(other, NOW_MS)


def test_only_so_many_addresses_are_remembered() -> None:
    unauthenticated = UnauthenticatedCallers(addresses_max=2)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        for _ in range(STRANGER_REQUESTS_MAX):
            unauthenticated.count(address, NOW_MS)
    unauthenticated.count("192.0.2.1", NOW_MS)  # forgotten
    with pytest.raises(Problem):
        unauthenticated.count("192.0.2.3", NOW_MS)
