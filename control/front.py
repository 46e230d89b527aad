"""What people see who open the address: the console, or a page of links where it is not built.

The console is a few files, read once at start. Its pages are below `/console/`: each path there
that is no file is answered with `index.html`, and the page itself knows what to show. A missing
asset is not found, so that a page of an older release notices that it is stale.

`index.html` says which scopes its viewer has. So the page asks for what they may see at once, and
not only when it knows who they are.
"""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from aiohttp import web

from control.usage.entity_tag import is_known
from meterline.access import Scope
from meterline.limits import CONSOLE_ASSET_AGE_S, CONSOLE_GZIP_BYTES_MIN
from meterline.problem import Problem, ProblemType

INDEX: Final = "index.html"
ASSETS: Final = "assets/"  # their names have a hash of what they hold
_SCOPES: Final = b'<meta name="meterline-scopes" content="%s" />'
_TAG_BYTES: Final = 16
_GZIP_LEVEL: Final = 9  # once per file and process
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_COMPRESSED: Final = frozenset({".ico", ".png", ".woff2"})  # gzip saves nothing
_SECURITY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_LINKS: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Meterline</title>
<h1>Meterline {version}</h1>
<p>Send usage events, define meters, query usage, and get usage reports as webhooks.</p>
<ul>
<li><code>POST /api/v3/metering/events</code> accepts events
<li><a href="/api/v3/metering/events">/api/v3/metering/events</a>: events with their verdicts
<li><a href="/api/v3/metering/meters">/api/v3/metering/meters</a>: the meters; POST creates one
<li><code>POST /api/v3/metering/meters/{{idOrKey}}/query</code> queries usage
<li><a href="/api/v3/metering/status">/api/v3/metering/status</a>: the progress of counting
<li><a href="/api/v1/reports">/api/v1/reports</a>: scheduled reports; POST creates one
<li><a href="/readyz">/readyz</a>: whether all stores respond
</ul>
</html>
"""


ScopesOf = Callable[[web.Request], Awaitable[Collection[Scope]]]


async def no_scopes(_request: web.Request) -> Collection[Scope]:
    """Nothing is known of who asks."""
    return ()


@dataclass(slots=True)
class ConsoleFile:
    """One file as it is answered. It is compressed when it is first asked for."""

    name: str
    body: bytes
    digest: str = field(init=False)  # differs wherever the bytes differ
    _zipped: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.digest = blake2b(self.body, digest_size=_TAG_BYTES).hexdigest()

    @property
    def kind(self) -> str:
        """Its media type."""
        return _TYPES.get(PurePosixPath(self.name).suffix, "application/octet-stream")

    @property
    def shrinks(self) -> bool:
        """Whether compressing it is worth it."""
        small = len(self.body) < CONSOLE_GZIP_BYTES_MIN
        return not small and PurePosixPath(self.name).suffix not in _COMPRESSED

    def for_viewer(self, scopes: Collection[Scope]) -> "ConsoleFile":
        """The index for a viewer who has these scopes."""
        names = " ".join(sorted(scopes)).encode()
        return ConsoleFile(self.name, self.body.replace(_SCOPES % b"", _SCOPES % names))

    async def zipped(self) -> bytes:
        """The bytes as gzip, in a thread the first time: others are answered meanwhile."""
        if self._zipped is None:
            self._zipped = await asyncio.to_thread(
                gzip.compress, self.body, compresslevel=_GZIP_LEVEL, mtime=0
            )
        return self._zipped


class Console:
    """The files of the console by name, such as `assets/main-5f3a.js`; `index.html` is one."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = {name: ConsoleFile(name, body) for name, body in files.items()}
        self._index = self._files[INDEX]

    @property
    def build(self) -> str:
        """Which build this is: the index names every asset by its hash."""
        return self._index.digest

    def found(self, path: str) -> ConsoleFile:
        """What a path below `/console/` answers. Raises `Problem` (not found) for an asset that is
        not there.
        """
        there = self._files.get(path)
        if there is None and path.startswith(ASSETS):
            detail = (
                f"The console has no file {path!r}. If it is open in a browser, reload the page: "
                "the server has another release of it."
            )
            raise Problem(ProblemType.NOT_FOUND, detail)
        return there or self._index

    async def answer(
        self, request: web.Request, scopes_of: ScopesOf = no_scopes
    ) -> web.StreamResponse:
        """The file that the path asks for, or 304."""
        file = self.found(request.match_info.get("path", ""))
        if file is self._index:
            file = file.for_viewer(await scopes_of(request))
        shrinks = file.name != INDEX and file.shrinks  # the index is short, and made for its viewer
        zipped = shrinks and accepts_gzip(request.headers.get("Accept-Encoding", ""))
        tag = f'"{file.digest}{"-gzip" if zipped else ""}"'
        age = f"public, max-age={CONSOLE_ASSET_AGE_S}, immutable"
        headers = {
            **_SECURITY,
            "Cache-Control": age if file.name.startswith(ASSETS) else "private, no-cache",
            "ETag": tag,
            "Vary": "Accept-Encoding, Cookie" if file.name == INDEX else "Accept-Encoding",
        }
        if is_known(request, tag):
            return web.Response(status=304, headers=headers)
        if zipped:
            headers["Content-Encoding"] = "gzip"
        body = await file.zipped() if zipped else file.body
        charset = "utf-8" if file.kind.startswith("text/") else None
        return web.Response(body=body, content_type=file.kind, charset=charset, headers=headers)


def read_console() -> Console | None:
    """The console that was built into the package; None where it has none."""
    root = resources.files("control") / "console"
    if not (root / INDEX).is_file():
        return None
    return Console(dict(_files(root, "")))


def _files(folder: Traversable, before: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for child in folder.iterdir():
        if child.is_dir():
            found += _files(child, f"{before}{child.name}/")
        else:
            found.append((before + child.name, child.read_bytes()))
    return found


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` allows gzip (RFC 9110 12.5.3)."""
    for part in header.lower().split(","):
        coding, _, parameter = (text.strip() for text in part.partition(";"))
        if coding in {"gzip", "x-gzip", "*"}:
            return parameter.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def routes(console: Console | None, scopes_of: ScopesOf = no_scopes) -> list[web.RouteDef]:
    """`/`, and all below `/console/`; without a console `/` is a page of links."""
    if console is None:
        return [web.get("/", links)]
    answer = partial(console.answer, scopes_of=scopes_of)
    return [web.get(path, answer) for path in ("/", "/console", "/console/{path:.*}")]


async def links(_request: web.Request) -> web.StreamResponse:
    """The page of links."""
    return web.Response(
        text=_LINKS.format(version=version("meterline")),
        content_type="text/html",
        headers={**_SECURITY, "Content-Security-Policy": "default-src 'none'"},
    )
