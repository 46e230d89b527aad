"""What schemathesis is told of this API; it is loaded into its process."""

import re
from typing import Any

import schemathesis
from schemathesis import HookContext
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import RejectedPositiveData

SAID_BY_SCHEMAS = {
    "type", "unknown_property", "min_length", "max_length", "min_items", "max_items", "enum",
}  # fmt: skip
# An event within a body is judged by the door, as one that `ingest-metering-events` takes is.
EVENTS_WITHIN = "/redrive"
# Of these rules, what depends on other members, or on what is stored.
BEYOND_SCHEMAS = (
    "whole number", "must be an object", "is not a dimension", "is no plan", "at most 20 digits",
)  # fmt: skip
BARE = re.compile(r"filter\[[^\]]*\]|.*\[\]")


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Any, response: Any) -> bool:
    """Whether it is one: `filter[name]=x`, without an operator, is `eq`, as the words of the
    document say. Its schema has the operators only, for that is what clients are made of. And what
    a URL cannot show, such as a member without a name, was not sent: for null it shows a text.
    """
    del context
    bare = any(BARE.fullmatch(name) for name in case.query or ())
    unshown = bare or _empty_within(case.query or {})
    if isinstance(failure, RejectedPositiveData):
        meant = unshown or case.path.endswith(EVENTS_WITHIN)
        return not meant and _a_schema_could_say(response)
    unshown = unshown or "null" in (case.query or {}).values()
    return not (unshown and isinstance(failure, AcceptedNegativeData))


def _empty_within(value: Any) -> bool:
    """Whether an object or a list without members is somewhere in it: a URL cannot show these."""
    if isinstance(value, dict):
        return any(one in ({}, []) or _empty_within(one) for one in value.values())
    return isinstance(value, list) and any(_empty_within(one) for one in value)


def _a_schema_could_say(response: Any) -> bool:
    """Whether a refusal of what fits the schema has a reason that the schema could have told.

    No schema can say that a name is there, that `from` is before `to`, that a cursor is ours, that
    a path of JSON reads well: these are other rules of a refusal, or other words.
    """
    return any(
        fault.get("rule") in SAID_BY_SCHEMAS
        and not any(words in fault["reason"] for words in BEYOND_SCHEMAS)
        for fault in response.json().get("invalid_parameters", ())
    )
