"""What the commands that ask a server share: options, requests that are tried again, progress."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import aiohttp
import click
import msgspec
from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from meterline.window import Backoff, parse_instant, rfc3339

V3: Final = "/api/v3/metering"
SERVER: Final = "http://127.0.0.1:8888"  # if none is named
API_KEY_VARIABLE: Final = "METERLINE_API_KEY"
TRIES_MAX: Final = 5
RETRY_DELAY_S: Final = 2
ANSWERED: Final = (200, 202)
UNAUTHENTICATED: Final = 401
TOO_MANY: Final = 429
SERVER_FAULTS: Final = 500
_F = TypeVar("_F", bound=Callable[..., Any])


class AskingFailed(Exception):
    """What a server was asked for could not be had, or not be believed; the text says why.
    `status` is that of its answer, if there was one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def api_key_option(scopes: str) -> Callable[[_F], _F]:
    """The option of a key with scopes."""
    return click.option(
        "--api-key",
        envvar=API_KEY_VARIABLE,
        help=f"API key with the scope {scopes}. Set it in {API_KEY_VARIABLE}: other users of this"
        " machine can see command lines.",
    )


def instant(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """The callback of an option that is a time: unix milliseconds, None where it is not given."""
    if text is None:
        return None
    try:
        at_ms = parse_instant(text)
        rfc3339(at_ms)  # it can be written back
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from error
    return at_ms


def authorization(api_key: str | None) -> dict[str, str]:
    """The headers that show a key; none without one."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


async def ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    timeout_s: float,
    retry_delay_s: float = RETRY_DELAY_S,
    **request: Any,
) -> bytes:
    """The body of an answer 200. Asked a few times, while the server fails, is away or has too much
    to do. Raises `AskingFailed`.
    """
    backoff, timeout, tries = Backoff(retry_delay_s), aiohttp.ClientTimeout(total=timeout_s), 0
    while True:
        tries += 1
        try:
            async with session.request(method, url, timeout=timeout, **request) as response:
                body, status = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure, passes = AskingFailed(f"{url}: {failed_message(error)}"), True
        else:
            if status in ANSWERED:
                return body
            text = f"{url} answered {status}: {_detail(body)}{hint(status)}"
            failure = AskingFailed(text, status)
            passes = status >= SERVER_FAULTS or status == TOO_MANY
        if not passes or tries == TRIES_MAX:
            raise failure
        await asyncio.sleep(backoff.next_s())


def hint(status: int) -> str:
    """What to do about a refusal, where the server cannot know how it was asked; often empty."""
    asks_for_key = status == UNAUTHENTICATED
    return f" Set {API_KEY_VARIABLE} to a key that this server accepts." if asks_for_key else ""


def failed_message(error: BaseException) -> str:
    """What an error of the network says of itself, or at least its kind."""
    return str(error) or type(error).__name__


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=dict[str, Any]).get("detail", ""))
    except msgspec.DecodeError:
        return body[:200].decode(errors="replace")


def progress(console: Console, *columns: ProgressColumn) -> Progress:
    """A line that shows how far a command is, on terminals only."""
    return Progress(
        TextColumn("{task.description}"),
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def fail(command: str, message: object, code: int) -> NoReturn:
    """End the process with words and an exit code."""
    click.echo(f"meterline {command}: {message}", err=True)
    sys.exit(code)
