"""Strangers: callers without a good key, limited by the address they come from."""

from ipaddress import IPv6Address, ip_address
from typing import Final

from meterline.access import Bucket, Policy
from meterline.limits import LIMITED_MAX, STRANGER_REQUESTS_MAX, STRANGER_WINDOW_S
from meterline.problem import Problem, ProblemType

_POLICY: Final = Policy("failed_authentications", STRANGER_REQUESTS_MAX, STRANGER_WINDOW_S)
_SITE_BITS: Final = 64  # of an IPv6 address: one site has all the others


class UnauthenticatedCallers:
    """Requests without a good key, counted for each address. Good keys are never counted, so those
    behind the same proxy as callers without one pass.

    Of more than `addresses_max`, those that were idle for longest are forgotten.
    """

    def __init__(self, policy: Policy = _POLICY, addresses_max: int = LIMITED_MAX) -> None:
        self._policy = policy
        self._addresses_max = addresses_max
        self._buckets: dict[str, Bucket] = {}  # the longest idle first

    def count(self, address: str | None, now_ms: int) -> None:
        """Count a failed authentication. Raises `Problem` (rate-limited) beyond the bound."""
        site = _site(address)
        bucket = self._buckets.pop(site, None)
        if bucket is None:
            if len(self._buckets) >= self._addresses_max:
                del self._buckets[next(iter(self._buckets))]
            bucket = Bucket(self._policy, now_ms)
        self._buckets[site] = bucket
        taken = bucket.take(1, now_ms)
        if not taken.ok:
            detail = (
                f"More than {self._policy.quota} requests in {self._policy.window_s} s came from"
                " this address without a good API key. Check the key that is sent."
            )
            wait_s = taken.retry_after_s
            raise Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=wait_s)


def _site(address: str | None) -> str:
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""  # a socket without an address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(int(found) >> (128 - _SITE_BITS))
    return str(found)
