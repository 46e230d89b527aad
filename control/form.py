"""The form of an answer about usage: JSON or CSV as its reader accepts, sent in pieces."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from aiohttp import web

from meterline.http import answer_headers
from meterline.problem import Problem, ProblemType

ROWS_PER_PIECE: Final = 2_000  # between two pieces other requests get their turn
_JSON: Final = "application/json"
_CSV: Final = "text/csv"
_QUALITY: Final = re.compile(r"q\s*=\s*([01](?:\.[0-9]{0,3})?)", re.ASCII | re.IGNORECASE)


def wants_csv(request: web.Request) -> bool:
    """Whether `Accept` asks for CSV rather than JSON (RFC 9110 12.5.1); `Problem` if neither."""
    accept = ",".join(request.headers.getall("Accept", [])) or "*/*"
    as_json, as_csv = _wanted(accept, _JSON), _wanted(accept, _CSV)
    if not as_json[0] and not as_csv[0]:
        detail = f"There is {_JSON} and {_CSV} here; the Accept header takes neither."
        raise Problem(ProblemType.NOT_ACCEPTABLE, detail)
    return as_csv > as_json


def _wanted(accept: str, media: str) -> tuple[float, int]:
    """How much a media type is wanted: weight and rank of the narrowest range that covers it."""
    ranges = ("*/*", f"{media.partition('/')[0]}/*", media)
    best = (0.0, -1)
    for part in accept.split(","):
        covering, *parameters = (piece.strip().lower() for piece in part.split(";"))
        rank = ranges.index(covering) if covering in ranges else -1
        if rank > best[1]:
            weights = [found for one in parameters if (found := _QUALITY.fullmatch(one))]
            best = (float(weights[0][1]) if weights else 1.0, rank)
    return best


def csv_pieces(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[bytes]:
    """A table by RFC 4180, in pieces."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    for count, row in enumerate(rows, start=1):
        writer.writerow(row)
        if count % ROWS_PER_PIECE == 0:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def json_pieces(head: bytes, entries: Iterable[bytes], tail: bytes) -> Iterator[bytes]:
    """`head`, the entries with commas between them, `tail`, in pieces."""
    piece = [head]
    for count, entry in enumerate(entries):
        if count:
            piece.append(b",")
        piece.append(entry)
        if count % ROWS_PER_PIECE == ROWS_PER_PIECE - 1:
            yield b"".join(piece)
            piece = []
    piece.append(tail)
    yield b"".join(piece)


async def send(
    request: web.Request, media: str, headers: dict[str, str], pieces: Iterator[bytes]
) -> web.StreamResponse:
    """One piece as it is; more of them as a stream."""
    first = next(pieces)
    following = next(pieces, None)
    if following is None:
        return web.Response(body=first, content_type=media, headers=headers)
    # A stream's headers are gone before the middleware sees it again.
    response = web.StreamResponse(
        headers={**headers, **answer_headers(request), "Content-Type": media}
    )
    await response.prepare(request)
    await response.write(first)
    while following is not None:
        await response.write(following)
        following = next(pieces, None)
    await response.write_eof()
    return response


def attachment(name: str) -> dict[str, str]:
    """The header that makes a browser save a CSV answer as a file. `name` is a meter's key."""
    return {"Content-Disposition": f'attachment; filename="{name}.csv"'}
