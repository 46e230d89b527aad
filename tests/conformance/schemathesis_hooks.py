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
    document say. Its schema has the operators only, for that is what clients are made of.
    """
    del context, response
    bare = any(BARE.fullmatch(name) for name in case.query or ())
    return not (bare and isinstance(failure, AcceptedNegativeData))
