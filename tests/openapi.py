"""Answers against the published documents: what is answered must be what was promised.

A test that has an answer at hand gives it to `check`, which finds document and operation by itself.
The documents are made from the declarations in the code, as those that are served are.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from control.openapi.published import as_json
from meterline.http.mounting import OLD_PREFIXES, V3_PREFIXES
from meterline.problem import MEDIA_TYPE
from meterline.runtime.commands import documents

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Document = dict[str, Any]
METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})
_NAME: Final = re.compile(r"\{([^}]+)\}")
_SCOPE: Final = re.compile(r"Scope: `([a-z:]+)`")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
UNDOCUMENTED: Final[list[str]] = []


class Undocumented(AssertionError):
    """An answer that the document does not promise."""


@dataclass(frozen=True, slots=True)
class Published:
    """An operation as the document has it."""

    id: str
    method: str
    template: str  # of its path
    declared: Document
    document: Document

    @property
    def names(self) -> list[str]:
        """Of its path, in their order."""
        return _NAME.findall(self.template)

    @property
    def scope(self) -> str | None:
        """What a key needs; None: it is open to all."""
        found = _SCOPE.search(self.declared["description"])
        return None if found is None else found[1]

    @property
    def parameters(self) -> list[Document]:
        """Of the query."""
        return [one for one in self.declared.get("parameters", []) if one["in"] == "query"]

    @property
    def demanding(self) -> bool:
        """Whether it cannot be asked without a query."""
        return any(one.get("required", False) for one in self.parameters)

    @property
    def body(self) -> tuple[str, Any] | None:
        """Media type and example of what it takes; None: nothing."""
        if "requestBody" not in self.declared:
            return None
        media_type, content = next(iter(self.declared["requestBody"]["content"].items()))
        return media_type, content["example"]

    @property
    def body_optional(self) -> bool:
        """Whether what it takes may be left out."""
        return not self.declared["requestBody"].get("required", False)

    def path(self, names: Mapping[str, str]) -> str:
        """Its path with these names in it, which are quoted where they must be."""
        return _NAME.sub(lambda found: names[found[1]], self.template)

    def check(self, status: int, headers: Mapping[str, str], body: bytes, method: str = "") -> None:
        """Raise `Undocumented` where an answer of it is not as promised. Header names: any case."""
        where = f"{self.id}: {status}"
        promised = self.declared["responses"].get(str(status))
        if promised is None:
            raise Undocumented(f"{where} is not documented: {body[:500]!r}")
        promised = self._resolved(promised)
        given = {name.lower(): value for name, value in headers.items()}
        for name, header in promised.get("headers", {}).items():
            self._check_header(where, name, self._resolved(header), given.get(name.lower()))
        if (method or self.method).upper() != "HEAD":
            self._check_content(where, promised, given.get("content-type"), body)

    def _check_header(self, where: str, name: str, header: Document, given: str | None) -> None:
        if given is None:
            if header.get("required"):
                raise Undocumented(f"{where}: no header {name}")
            return
        value: object = given
        if header["schema"].get("type") == "integer" and given.isdecimal():
            value = int(given)
        self._check_schema(f"{where}: header {name}", header["schema"], value)

    def _check_content(
        self, where: str, promised: Document, media_type: str | None, body: bytes
    ) -> None:
        contents = promised.get("content")
        if contents is None:
            if body:
                raise Undocumented(f"{where}: a body where none is documented: {body[:500]!r}")
            return
        media = (media_type or "").partition(";")[0]
        if media not in contents:
            raise Undocumented(f"{where}: {media_type} where {[*contents]} are documented")
        if media.endswith("json"):
            self._check_schema(where, contents[media]["schema"], json.loads(body))

    def _check_schema(self, where: str, schema: Document, value: object) -> None:
        errors = sorted(_validator(self.document, schema).iter_errors(value), key=str)
        if errors:
            told = "; ".join(f"{error.json_path}: {error.message[:300]}" for error in errors[:5])
            raise Undocumented(f"{where}: {told}")

    def _resolved(self, node: Document) -> Document:
        while "$ref" in node:
            target: Document = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node


_validators: dict[tuple[int, str], "Draft202012Validator"] = {}


def _validator(document: Document, schema: Document) -> "Draft202012Validator":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 2 s that few tests need

    key = id(document), json.dumps(schema, sort_keys=True)
    if key not in _validators:
        whole = {**schema, "components": document["components"]}
        checker = Draft202012Validator.FORMAT_CHECKER
        _validators[key] = Draft202012Validator(whole, format_checker=checker)
    return _validators[key]


class Api:
    """A document's operations; the first prefix is the document's, others are other names of it."""

    def __init__(self, document: Document, prefixes: tuple[str, ...]) -> None:
        self.document = document
        self.prefixes = prefixes
        self.operations = {one.id: one for one in _operations(document)}
        self._routes = [(_pattern(one.template), one) for one in self.operations.values()]

    def find(self, method: str, path: str) -> Published | None:
        """The operation that answers a request, if it is one of these."""
        wanted = "GET" if method == "HEAD" else method
        found = [one for one in self.at(path) if one.method == wanted]
        # a path without names is meant before one with
        return min(found, key=lambda one: len(one.names), default=None)

    def at(self, path: str) -> list[Published]:
        """The operations of a path."""
        path = self.named(path.partition("?")[0])
        return [one for pattern, one in self._routes if pattern.fullmatch(path)]

    def named(self, path: str) -> str:
        """The path below the document's own prefix."""
        for prefix in self.prefixes[1:]:
            if path.startswith(f"{prefix}/"):
                return self.prefixes[0] + path.removeprefix(prefix)
        return path


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_NAME.sub("[^/]+", re.sub(r"[.^$*+?()\[\]\\|]", r"\\\g<0>", template)))


def _operations(document: Document) -> Iterator[Published]:
    for template, item in document["paths"].items():
        for method, declared in item.items():
            if method in METHODS:
                yield Published(
                    declared["operationId"], method.upper(), template, declared, document
                )


@cache
def published() -> tuple[Api, Api]:
    """v3, and v1 with what there is of v2."""
    v3 = json.loads(as_json(documents.v3(documents.declared_v3())))
    v1 = json.loads(as_json(documents.v1(documents.declared_v1())))
    return Api(v3, V3_PREFIXES), Api(v1, OLD_PREFIXES)


def check(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raise `Undocumented` where an answer of the API is in neither document."""
    for api in published():
        operation = api.find(method, path)
        if operation is not None:
            operation.check(status, headers, body, method)
            return
    if path.startswith("/api/") and (
        status not in (404, 405) or not _media_type(headers).startswith(MEDIA_TYPE)
    ):
        raise Undocumented(f"{method} {path}: {status} of no operation: {body[:500]!r}")


@web.middleware
async def documented(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The outermost middleware of a test's application: keeps in `UNDOCUMENTED` what is not as
    promised. tests/unit/conftest.py looks there after each test.
    """
    response = await handler(request)
    path = request.rel_url.raw_path
    if request.match_info.http_exception is not None:  # this application has no such operation
        return response
    try:
        if isinstance(response, web.Response) and isinstance(response.body, bytes | None):
            body = response.body or b""
            check(request.method, path, response.status, response.headers, body)
        elif request.method == "GET":  # a stream: it is sent by now
            check("HEAD", path, response.status, response.headers, b"")
    except Undocumented as error:
        UNDOCUMENTED.append(f"{request.method} {path}: {error}")
    return response


def _media_type(headers: Mapping[str, str]) -> str:
    return next((value for name, value in headers.items() if name.lower() == "content-type"), "")
