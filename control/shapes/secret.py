"""Answers that hold a secret: nobody on their way keeps them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from meterline.http import json_response
from meterline.http.operation import Answer

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def secret_answer(
    status: int, description: str, shape: Any, example: object, headers: Mapping[str, str] = _NONE
) -> Answer:
    """The answer as it is published; `headers` are those that it has besides."""
    kept = {"Cache-Control": "Always no-store: the answer holds a secret.", **headers}
    return Answer(status, description, shape, example=example, headers=kept)


def secret_response(
    shown: object, status: int = 200, headers: Mapping[str, str] = _NONE
) -> web.Response:
    """The answer."""
    return json_response(shown, status, {"Cache-Control": "no-store", **headers})
