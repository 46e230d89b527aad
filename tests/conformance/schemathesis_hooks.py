"""What schemathesis is told of this API; it is loaded into its process."""

import re
from typing import Any

import schemathesis
from schemathesis import HookContext
from schemathesis.core.failures import AcceptedNegativeData, Failure

BARE = re.compile(r"filter\[[^\]]*\]")


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Any, response: Any) -> bool:
    """Whether it is one: `filter[name]=x`, without an operator, is `eq`, as the words of the
    document say. Its schema has the operators only, for that is what clients are made of. And what
    a URL cannot show was not sent.
    """
    del context, response
    bare = any(BARE.fullmatch(name) for name in case.query or ())
    unsent = _empty_within(case.query or {})
    return not ((bare or unsent) and isinstance(failure, AcceptedNegativeData))


def _empty_within(value: Any) -> bool:
    """Whether an object or a list without members is somewhere in it: a URL cannot show these."""
    if isinstance(value, dict):
        return any(one in ({}, []) or _empty_within(one) for one in value.values())
    return isinstance(value, list) and any(_empty_within(one) for one in value)
