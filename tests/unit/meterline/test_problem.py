import json

import pytest

from meterline.limits import PROBLEM_ERRORS_MAX
from meterline.problem import Fault, Problem, ProblemType, invalid, not_found


def test_names_and_uris_are_stable_and_unique() -> None:
    """Clients branch on these: a change here is a break of the contract (section 7)."""
    assert {
        kind.uri.removeprefix("urn:meterline:problem:"): kind.status for kind in ProblemType
    } == {
        "bad-request": 400,
        "invalid-event": 400,
        "unsupported-content-type": 400,
        "unauthenticated": 401,
        "forbidden": 403,
        "not-found": 404,
        "method-not-allowed": 405,
        "not-acceptable": 406,
        "conflict": 409,
        "body-too-large": 413,
        "rate-limited": 429,
        "internal": 500,
        "unavailable": 503,
    }


@pytest.mark.parametrize("kind", ProblemType)
def test_the_document_has_the_standard_members(kind: ProblemType) -> None:
    document = Problem(kind, "what happened").members("urn:request:1")
    assert json.loads(json.dumps(document)) == {
        "type": kind.uri,
        "title": kind.title,
        "status": kind.status,
        "detail": "what happened",
        "instance": "urn:request:1",
    }


def test_faults_are_listed_up_to_the_bound() -> None:
    faults = tuple(Fault("f", "wrong", index=number) for number in range(PROBLEM_ERRORS_MAX + 5))
    document = Problem(ProblemType.INVALID_EVENT, "x", faults).members("i")
    listed = document["invalid_parameters"]
    assert isinstance(listed, list)
    assert len(listed) == PROBLEM_ERRORS_MAX
    assert listed[3] == {"field": "f", "reason": "wrong", "source": "body", "index": 3}
    assert Fault("q", "r", "enum", "query").members() == {
        "field": "q",
        "reason": "r",
        "source": "query",
        "rule": "enum",
    }


def test_invalid_tells_the_first_fault() -> None:
    assert invalid(Fault("id", "is missing")).detail == "id: is missing"
    several = invalid(Fault("id", "is missing", index=4), Fault("x", "y"))
    assert several.detail == "event 4: id: is missing (and 1 more)"
    assert str(several) == "bad-request: event 4: id: is missing (and 1 more)"


def test_not_found_names_what_is_not_there() -> None:
    problem = not_found("meter", "tokens")
    assert problem.type is ProblemType.NOT_FOUND
    assert "meter 'tokens'" in problem.detail
