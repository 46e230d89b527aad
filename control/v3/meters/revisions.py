"""Revisions of a meter in API v3: proposed, filled in beside the one in force, compared, switched
to.
"""

import asyncio
import re
from contextlib import aclosing
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field

from control.handlers import OfStores, Operation
from control.shapes.optional_members import instant
from control.shapes.pages import PageParameters, cursor_page, page_answer, parts_after
from control.usage.admission import Asks
from control.usage.query import complete_until
from control.v3.meters.bodies import MeterRevisionBody, MeterSwitchBody
from control.v3.meters.comparison import Comparison, SubjectDifference, compared
from control.v3.meters.revision_shapes import (
    COMPARISON_EXAMPLE,
    REVISION_EXAMPLE,
    REVISION_PAGE,
    ComparisonShown,
    MeterRevisionShown,
    RevisionProgressShown,
    SubjectDifferenceShown,
    revision_shown,
)
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import CursorPage, Instant, NoParameters, Parameters
from meterline.limits import REVISION_SLICES_COUNTED_MAX, SUPERSEDED_KEPT_MS
from meterline.meter import Meter, MeterRevision, RevisionState
from meterline.number import text
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.usage import UsageQuery, UsageRow
from meterline.window import DAY_MS, rfc3339

_CURSOR: Final = re.compile("[0-9]{1,18}", re.ASCII)  # below 2**63
_ONE: Final = "/meters/{meterId}/revisions/{revision}"


class ComparisonParameters(Parameters):
    """Of which time, of which subjects, which page."""

    from_: Annotated[
        Instant | None, Field(alias="from", description="Usage of then or later; else of all.")
    ] = None
    to: Annotated[Instant | None, Field(description="Usage of earlier than then.")] = None
    include_equal: Annotated[
        bool, Field(description="Whether to list subjects that do not differ, too.")
    ] = False
    page: CursorPage = CursorPage()


class V3MeterRevisions(OfStores, tag="Meters"):
    """Handlers of a meter's revisions."""

    @Operation(
        id="create-meter-revision",
        route="POST /meters/{meterId}/revisions",
        summary="Propose a revision of a meter",
        description=(
            "Propose a new revision of a meter. It is backfilled from stored events, while the "
            "current revision keeps answering. Compare both, then switch to the new one or delete "
            "it."
        ),
        scope=Scope.METERS_WRITE,
        body=json_body(MeterRevisionBody, {"value_property": "$.tokens_billed"}),
        answer=Answer(201, "The revision.", MeterRevisionShown, example=REVISION_EXAMPLE),
        problems=(ProblemType.CONFLICT,),
    )
    async def create(self, call: Call[NoParameters, MeterRevisionBody]) -> web.Response:
        """201 with the revision, which waits."""
        stores = self._stores
        made = await stores.revisions.propose(
            call.namespace,
            call.names["meterId"],
            call.body.change(),
            stores.now_ms,
            author=call.author,
        )
        return json_response(await self._shown(made), status=201)

    @Operation(
        id="list-meter-revisions",
        route="GET /meters/{meterId}/revisions",
        summary="List the revisions of a meter",
        scope=Scope.METERS_READ,
        parameters=PageParameters,
        answer=page_answer(
            "A page of revisions, the newest first.", REVISION_PAGE, REVISION_EXAMPLE, "7"
        ),
    )
    async def list(self, call: Call[PageParameters, None]) -> web.Response:
        """One page; the cursor is a number."""
        page = call.parameters.page
        after = parts_after(page, _CURSOR)
        before = None if after is None else int(after[0])
        found = await self._stores.revisions.listed(
            call.namespace, call.names["meterId"], page.size + 1, before
        )
        return json_response(cursor_page(found, page, revision_shown, lambda it: str(it.number)))

    @Operation(
        id="get-meter-revision",
        route=f"GET {_ONE}",
        summary="Get a revision of a meter",
        scope=Scope.METERS_READ,
        answer=Answer(200, "The revision.", MeterRevisionShown, example=REVISION_EXAMPLE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The revision, and how far it is filled in."""
        return json_response(await self._shown(await self._revision(call)))

    @Operation(
        id="compare-meter-revision",
        route=f"GET {_ONE}/comparison",
        summary="Compare a revision with the current one",
        description=(
            "Compare the results of a revision with those of the current one, subject by subject. "
            "While the revision is being backfilled, `progress` shows how far it is."
        ),
        scope=Scope.USAGE_READ,
        asks=Asks.MUCH,
        parameters=ComparisonParameters,
        answer=Answer(
            200, "A page of subjects, by name.", ComparisonShown, example=COMPARISON_EXAMPLE
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def compare(self, call: Call[ComparisonParameters, None]) -> web.Response:
        """One page of subjects; everything is asked anew for each."""
        asked, page = call.parameters, call.parameters.page
        one = await self._revision(call)
        there = await self._stores.meter(call.namespace, call.names["meterId"])
        _check_comparable(there, one)
        if asked.from_ is not None and asked.to is not None and asked.from_ >= asked.to:
            message = f"{rfc3339(asked.from_)} must be before to, {rfc3339(asked.to)}"
            raise invalid(Fault("from", message, "maximum", "query"))
        progress = await self._progress(one)  # first: what it speaks of is in the answer
        made = Comparison(page.size, page.after, asked.include_equal)
        ask = self._stores.usage.usage_rows
        async with (
            aclosing(ask(_totals(there, asked))) as before,
            aclosing(ask(_totals(one.meter, asked))) as after,
        ):
            async for subject in compared(before, after):
                made.add(subject)
        answer = {
            "revision": one.number,
            "in_force": there.revision,
            "progress": progress,
            "subjects": made.subjects,
            "differing": made.differing,
            **cursor_page(made.found, page, _difference_shown, lambda it: it.subject),
        }
        return json_response(answer)

    @Operation(
        id="switch-meter-revision",
        route=f"POST {_ONE}/switch",
        summary="Switch a meter to a revision",
        description=(
            "Make a revision active. If its backfill is not finished, the switch waits "
            "(`filling`). With effective_from, usage of earlier windows stays as it was. If a "
            "report uses the meter, the superseded revision is kept for "
            f"{SUPERSEDED_KEPT_MS // DAY_MS} days, so that runs can be corrected."
        ),
        scope=Scope.METERS_WRITE,
        body=json_body(MeterSwitchBody, {"effective_from": "2026-03-01T00:00:00Z"}),
        answer=Answer(
            200,
            "The revision as it is now.",
            MeterRevisionShown,
            example={
                **REVISION_EXAMPLE,
                "state": "filling",
                "effective_from": "2026-03-01T00:00:00Z",
            },
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def switch(self, call: Call[NoParameters, MeterSwitchBody]) -> web.Response:
        """200 with the revision: in force where it is filled in, else waiting for that."""
        stores, number = self._stores, int(call.names["revision"])
        now_ms, author = stores.now_ms, call.author
        one = await stores.revisions.request_switch(
            call.namespace,
            call.names["meterId"],
            number,
            call.body.effective_from,
            now_ms,
            author=author,
        )
        if one.state is RevisionState.FILLING and await self._is_filled(one):
            await stores.catalogue.switch_filled(number, now_ms, author=author)
            one = await self._revision(call)
        return json_response(await self._shown(one))

    @Operation(
        id="delete-meter-revision",
        route=f"DELETE {_ONE}",
        summary="Discard a pending revision",
        scope=Scope.METERS_WRITE,
        answer=Answer(204, "It is discarded."),
        problems=(ProblemType.CONFLICT,),
    )
    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204; 409 for one that answered usage."""
        stores = self._stores
        await stores.revisions.discard(
            call.namespace,
            call.names["meterId"],
            int(call.names["revision"]),
            stores.now_ms,
            author=call.author,
        )
        return web.Response(status=204)

    async def _revision(self, call: Call[Any, Any]) -> MeterRevision:
        names = call.names
        return await self._stores.revisions.revision(
            call.namespace, names["meterId"], int(names["revision"])
        )

    async def _is_filled(self, one: MeterRevision) -> bool:
        return await complete_until(self._stores, UsageQuery(one.meter)) is not None

    async def _progress(self, one: MeterRevision) -> RevisionProgressShown:
        log, progress = self._stores.log, self._stores.progress
        lists = await asyncio.gather(
            *(
                progress.unfilled(log.number, n, one.number, REVISION_SLICES_COUNTED_MAX)
                for n in range(log.partitions)
            )
        )
        until_ms = await complete_until(self._stores, UsageQuery(one.meter))
        return {
            "complete_until": instant(until_ms),
            "slices_left": sum(map(len, lists)),
        }

    async def _shown(self, one: MeterRevision) -> MeterRevisionShown:
        return revision_shown(one, await self._progress(one) if one.folded else None)


def _totals(meter: Meter, asked: ComparisonParameters) -> UsageQuery:
    return UsageQuery(meter, asked.from_, asked.to, group_by=("subject",), rejected_too=True)


def _check_comparable(there: Meter, one: MeterRevision) -> None:
    if one.number == there.revision:
        why = "is in force: there is nothing to compare it with"
    elif one.not_kept_since_ms is not None:
        since = rfc3339(one.not_kept_since_ms)
        why = f"is {one.state}, and its numbers are not kept since {since}"
    elif not one.folded:
        why = f"is {one.state}, and events are not counted in it any more"
    else:
        return
    detail = f"Revision {one.number} of meter {there.key!r} {why}."
    raise Problem(ProblemType.CONFLICT, detail)


def _difference_shown(it: SubjectDifference) -> SubjectDifferenceShown:
    before, after = it.before, it.after
    return {
        "subject": it.subject,
        "value_before": _value(before),
        "value_after": _value(after),
        "difference": text(it.difference),
        "counted_before": 0 if before is None else before.count,
        "counted_after": 0 if after is None else after.count,
        "rejected_before": 0 if before is None else before.rejected,
        "rejected_after": 0 if after is None else after.rejected,
    }


def _value(row: UsageRow | None) -> str | None:
    return None if row is None or not row.count else text(row.value)
