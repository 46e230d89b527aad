"""Pages of a list, as v3 shows them (peer-api.md 1.4 and 1.5)."""

import re
from typing import Annotated, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from meterline.http.shapes import CursorPage
from meterline.problem import Fault, invalid

_ID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


class CursorsShown(TypedDict):
    """Where a page lies in its list."""

    size: Annotated[int, Field(description="How many entries were asked for.")]
    next: Annotated[str | None, Field(description="Cursor of the next page; null on the last.")]
    previous: Annotated[str | None, Field(description="Always null: lists are read forwards.")]
    first: NotRequired[Annotated[str, Field(description="Cursor of the first entry.")]]
    last: NotRequired[Annotated[str, Field(description="Cursor of the last entry.")]]


class CursorMetaShown(TypedDict):
    """What is said of a page."""

    page: CursorsShown


class NumbersShown(TypedDict):
    """Which page it is, and of how many entries."""

    number: int
    size: int
    total: Annotated[int, Field(description="Entries of all pages.")]


class NumberMetaShown(TypedDict):
    """What is said of a page."""

    page: NumbersShown


def cursors(size: int, shown: list[str], *, more: bool) -> CursorMetaShown:
    """The `meta` of a page whose entries have these cursors; `more` if another page follows."""
    page: CursorsShown = {"size": size, "next": None, "previous": None}
    if shown:
        page["first"], page["last"] = shown[0], shown[-1]
        if more:
            page["next"] = shown[-1]
    return {"page": page}


def id_after(page: CursorPage) -> str | None:
    """The cursor of a list whose cursors are ids. Raises `Problem` where it cannot be one."""
    if page.after is None or _ID.fullmatch(page.after):
        return page.after
    reason = "is no cursor; take it from meta.page.next of the page before"
    raise invalid(Fault("page[after]", reason, "matches_regex", "query"))
