"""Pages of a list, as v3 shows them (OpenMeter's v3)."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from meterline.http.operation import Answer
from meterline.http.shapes import CursorPage, InstantShown, NumberedPage, Parameters
from meterline.problem import Fault, Problem, invalid

T = TypeVar("T")
_shape: Final[Any] = TypedDict  # called with names that only the caller knows
_ID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


class PageParameters(Parameters):
    """Which page."""

    page: CursorPage = CursorPage()


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


KeptFrom = Annotated[
    InstantShown,
    Field(
        description="What the log took in before then is not kept any more; absent: everything is."
    ),
]


class KeptMetaShown(CursorMetaShown):
    """What is said of a page of a list whose old entries may be dropped."""

    kept_from: NotRequired[KeptFrom]


class NumbersShown(TypedDict):
    """Which page it is, and of how many entries."""

    number: int
    size: int
    total: Annotated[int, Field(description="Entries of all pages.")]


class NumberMetaShown(TypedDict):
    """What is said of a page."""

    page: NumbersShown


def page_shape(name: str, entry: Any, description: str, meta: Any = CursorMetaShown) -> Any:
    """The shape of a page of entries; `words` say of which, and in what order."""
    shape = _shape(name, {"data": list[entry], "meta": meta})
    shape.__doc__ = description
    return shape


def page_answer(description: str, shape: Any, entry: object, *cursor: str) -> Answer:
    """The answer that is a page; its example has one entry, with this cursor."""
    example = {"data": [entry], "meta": cursors(20, [*cursor], more=False)}
    return Answer(200, description, shape, example=example)


def numbered_answer(description: str, shape: Any, *entries: object) -> Answer:
    """The answer that is a page by number; its example has these entries."""
    page = numbered_page(NumberedPage(), entries, len(entries))
    return Answer(200, description, shape, example=page)


def cursors(size: int, shown: list[str], *, more: bool) -> CursorMetaShown:
    """The `meta` of a page whose entries have these cursors; `more` if another page follows."""
    page: CursorsShown = {"size": size, "next": None, "previous": None}
    if shown:
        page["first"], page["last"] = shown[0], shown[-1]
        if more:
            page["next"] = shown[-1]
    return {"page": page}


def cursor_page(
    found: Sequence[T], page: CursorPage, show: Callable[[T], object], cursor: Callable[[T], str]
) -> dict[str, object]:
    """A page of what was found: one more was asked for than it has entries, which tells whether
    another page follows.
    """
    listed = found[: page.size]
    return {
        "data": [show(one) for one in listed],
        "meta": cursors(page.size, list(map(cursor, listed)), more=len(found) > page.size),
    }


def numbered_page(page: NumberedPage, entries: Sequence[object], total: int) -> dict[str, object]:
    """A page of a list of so many entries, as it is shown."""
    meta: NumberMetaShown = {"page": {"number": page.number, "size": page.size, "total": total}}
    return {"data": [*entries], "meta": meta}


def part(found: Sequence[T], number: int, size: int) -> Sequence[T]:
    """The entries of a page, from 1 on, of a list that is there."""
    return found[(number - 1) * size : number * size]


def id_after(page: CursorPage) -> str | None:
    """The cursor of a list whose cursors are ids. Raises `Problem` where it cannot be one."""
    parts_after(page, _ID)
    return page.after


def parts_after(page: CursorPage, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The parts of a cursor; None on the first page. Raises `Problem` where it cannot be one."""
    if page.after is None:
        return None
    found = pattern.fullmatch(page.after)
    if found is None:
        raise no_cursor()
    return found


def no_cursor(
    reason: str = "is not a cursor; use meta.page.next of the previous page",
) -> Problem:
    """What is said where a text is no cursor of the list."""
    return invalid(Fault("page[after]", reason, "matches_regex", "query"))
