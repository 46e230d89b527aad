"""The audit (API v3), step by step: whoever asks follows `next` until it is null."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Final, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.shapes.optional_members import Maybe
from meterline.access import Scope
from meterline.audit import Auditor, AuditSpan, AuditStep, decode_place
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Closed, Instant, NoParameters
from meterline.limits import ATTRIBUTE_CHARS_MAX, AUDIT_FINDINGS_MAX
from meterline.ports import Unavailable
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.window import rfc3339

UNREAD_RETRY_S: Final = 1

Count = Annotated[int, Field(ge=0)]


class AuditBody(Closed):
    """What is to be looked at; `{}` is everything."""

    from_: Annotated[
        Maybe[Instant], Field(alias="from", description="Appended, or decided, then or later.")
    ] = None
    to: Annotated[Maybe[Instant], Field(description="Appended, or decided, before then.")] = None
    after: Annotated[
        Maybe[Annotated[str, Field(max_length=ATTRIBUTE_CHARS_MAX)]],
        Field(description="`next` of the step before."),
    ] = None
    payloads: Annotated[
        bool,
        Field(description="Also hash the contents of every event, not only where rows differ."),
    ] = False
    repair: Annotated[
        bool,
        Field(description="Rebuild what differs from the raw events, and audit it again."),
    ] = False


class AuditFindingShown(TypedDict):
    """One difference."""

    table: Annotated[
        str, Field(description="Where it is: a table, `log`, `seals`, `blocks` or `runs`.")
    ]
    place: Annotated[
        str,
        Field(
            description="log.partition.slice, log.partition, log.block, or the id of run or "
            "delivery."
        ),
    ]
    name: Annotated[str, Field(description="What differs there, in words.")]
    expected: str
    found: str
    mended: Annotated[bool, Field(description="Whether it was repaired.")]


class AuditCheckedShown(TypedDict):
    """What the step looked at."""

    slices: Count
    events: Count
    cells: Annotated[int, Field(ge=0, description="Tallies that were recounted in SQL.")]
    recounted_by_fold: Annotated[
        int,
        Field(
            ge=0,
            description="Slices of a meter with values or paths that SQL cannot read exactly: "
            "recounted by the code that counts.",
        ),
    ]
    not_filled_in: Annotated[
        int, Field(ge=0, description="Slices that a meter is still being filled in from.")
    ]
    not_kept: Annotated[
        int,
        Field(
            ge=0,
            description="Slices whose events or minutes are not kept any more: they are not "
            "recounted.",
        ),
    ]
    erased: Annotated[
        int, Field(ge=0, description="Events of erased subjects: they cannot be recounted.")
    ]
    moving: Annotated[int, Field(ge=0, description="Cells that are written just now: left out.")]
    blocks: Annotated[
        int, Field(ge=0, description="Sums by hour and day that were recounted from tallies.")
    ]
    blocks_not_kept: Annotated[
        int,
        Field(
            ge=0,
            description="Sums by hour and day whose minutes are not kept any more: they are not "
            "recounted.",
        ),
    ]
    runs: Count
    deliveries: Count


class AuditStepShown(TypedDict):
    """A step of an audit. It is clean when no step has findings."""

    findings: Annotated[list[AuditFindingShown], Field(max_length=AUDIT_FINDINGS_MAX)]
    omitted: Annotated[int, Field(ge=0, description="Findings of this step that are not listed.")]
    checked: AuditCheckedShown
    slices_total: Annotated[int, Field(ge=0, description="Slices of all steps.")]
    runs_total: Annotated[int, Field(ge=0, description="Runs of all steps.")]
    next: Annotated[
        str | None, Field(description="`after` of the next step; null: it was the last.")
    ]


_EXAMPLE: Final[Any] = {
    "findings": [
        {
            "table": "tallies",
            "place": "1.0.4096",
            "name": "meter tokens of default: subject 'acme', model 'small', 2026-01-31T10:00:00Z",
            "expected": "total 1250, counted 3",
            "found": "total 1000, counted 2",
            "mended": False,
        }
    ],
    "omitted": 0,
    "checked": {
        "slices": 64,
        "events": 120_000,
        "cells": 4_096,
        "recounted_by_fold": 0,
        "not_filled_in": 0,
        "not_kept": 0,
        "erased": 0,
        "moving": 0,
        "blocks": 0,
        "blocks_not_kept": 0,
        "runs": 0,
        "deliveries": 0,
    },
    "slices_total": 1_152,
    "runs_total": 31,
    "next": "slices.1.0.8192",
}


class V3Audit(Handlers, tag="Accounts"):
    """The handler of the audit; one step at a time, for each reads much."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        self._turn = asyncio.Lock()

    @Operation(
        id="audit-span",
        route="POST /audit",
        summary="Audit stored data against a recount",
        description=(
            "One step of an audit of the whole installation. It compares rows with accounts, "
            "seals and log, tallies with a recount of the raw events, sums by hour and day with "
            "the tallies, and bodies of deliveries with their digests. Send `next` as `after` "
            "until it is null. A step depends only on its cursor, so an interrupted audit can "
            "continue. `meterline audit` does this."
        ),
        scope=Scope.OPERATE,
        body=json_body(AuditBody, {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}),
        answer=Answer(200, "What the step found.", AuditStepShown, example=_EXAMPLE),
    )
    async def step(self, call: Call[NoParameters, AuditBody]) -> web.Response:
        """200 with what was found, also where nothing was."""
        asked = call.body
        if asked.from_ is not None and asked.to is not None and asked.from_ >= asked.to:
            message = f"{rfc3339(asked.from_)} must be before to, {rfc3339(asked.to)}"
            raise invalid(Fault("from", message, "maximum"))
        span = AuditSpan(asked.from_, asked.to, asked.payloads, asked.repair)
        if asked.after is not None:
            _check_cursor(asked.after)
        try:
            async with self._turn:
                made = await self._auditor.step(span, asked.after)
        except (Unavailable, ValueError) as error:
            raise _unread(error, asked.after) from error
        return json_response(_shown(made))


def _check_cursor(cursor: str) -> None:
    try:
        decode_place(cursor)
    except ValueError as error:
        raise invalid(Fault("after", str(error), "matches_regex")) from error


def _unread(error: Exception, cursor: str | None) -> Problem:
    """What a store could not give; with the scope of this operation its own words may be told."""
    at = "the first step" if cursor is None else f"the step after {cursor}"
    detail = (
        f"The audit could not read the rows of {at}: {error}. If this stays so, the rows are"
        " damaged: see 'When a store is lost or damaged' in docs/operations.md."
    )
    return Problem(ProblemType.UNAVAILABLE, detail, retry_after_s=UNREAD_RETRY_S)


def _shown(step: AuditStep) -> AuditStepShown:
    return {
        "findings": [cast("AuditFindingShown", asdict(one)) for one in step.findings],
        "omitted": step.omitted,
        "checked": {
            "slices": step.slices,
            "events": step.events,
            "cells": step.cells,
            "recounted_by_fold": step.folded,
            "not_filled_in": step.unfilled,
            "not_kept": step.not_kept,
            "erased": step.erased,
            "moving": step.moving,
            "blocks": step.blocks,
            "blocks_not_kept": step.blocks_not_kept,
            "runs": step.runs,
            "deliveries": step.deliveries,
        },
        "slices_total": step.slices_total,
        "runs_total": step.runs_total,
        "next": step.next,
    }
