"""Conditional requests (RFC 9110 13): the tag of an answer, and whether its reader has it."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from aiohttp import hdrs, web

READING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
IF_NONE_MATCH_DESCRIPTION: Final = (
    "`ETag` of the answer that the client has, or several, or `*`: 304 where it still holds."
)
_TAG_BYTES: Final = 16
_ANY: Final = "*"
_TAG: Final = re.compile(r'[ \t,]*(?:W/)?("[^"\x00-\x20\x7f]*")[ \t]*(?=,|$)')
_END: Final = re.compile(r"[ \t,]*")


def entity_tag(headers: Mapping[str, str], body: bytes) -> str:
    """A strong tag: answers with the same one are the same to the last byte."""
    found = blake2b(digest_size=_TAG_BYTES)
    for text in (item for pair in sorted(headers.items()) for item in pair):
        found.update(b"%d:%s" % (len(text), text.encode()))
    found.update(body)
    return f'"{found.hexdigest()}"'


def is_known(request: web.Request, tag: str | None) -> bool:
    """Whether the reader says that it has the answer with this tag, or any answer where there is no
    tag (`If-None-Match`). Tags are compared weakly, as RFC 9110 13.1.2 has it.
    """
    lines = request.headers.getall(hdrs.IF_NONE_MATCH, [])
    if request.method not in READING or not lines:
        return False
    return lines == [_ANY] or tag in tags_of(",".join(lines))


def tags_of(text: str) -> list[str]:
    """The tags of a list without their weakness; none where it is no list of tags."""
    found, at = [], 0
    while match := _TAG.match(text, at):
        found.append(match[1])
        at = match.end()
    return found if _END.fullmatch(text, at) else []
