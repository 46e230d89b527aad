"""`meterline keys`: make, list, rotate and revoke API keys, on the control store itself.

It works beside a running product, which takes changes in within seconds. Only the token goes to
stdout, so that it can be piped into a secret manager; words go to stderr.
"""

import asyncio
import re
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from ulid import ULID

from meterline.access import (
    COMMAND,
    EVERY_SCOPE,
    SECRET_BYTES,
    AccessStore,
    ApiKey,
    KeyDraft,
    Principal,
    Rotation,
    Scope,
    faults_of,
    hash_of,
    lacks_plan,
    namespace_faults,
    overlap_faults,
    token_of,
)
from meterline.backends.clock import SystemClock
from meterline.event import DEFAULT_NAMESPACE
from meterline.limits import KEY_OVERLAP_S, KEYS_READ_ROWS
from meterline.ports import Unavailable, Unsuitable
from meterline.problem import Fault, Problem, invalid
from meterline.runtime.settings.reading import Settings, SettingsError, load_settings
from meterline.window import parse_instant, rfc3339

EXIT_SETTINGS: Final = 2
PIPED_WIDTH: Final = 400  # nothing is cut off where no screen gives a width
DEFAULT_SCOPES: Final = EVERY_SCOPE - {Scope.OPERATE, Scope.SUBJECTS_ERASE}
CLOCK: Final = SystemClock()
Act = Callable[[AccessStore, Settings, int], Awaitable[None]]

_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)
_MISSING: Final = (
    "(missing): the settings have no plan of this name. The plan `default` applies, or else the"
    " strictest plan. Without any plan there is no limit. Restore the plan in the settings, or give"
    " the key another plan with the API (update-api-key)."
)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


@click.group()
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder.")
@click.pass_context
def keys(context: click.Context, data_dir: Path | None) -> None:
    """Create, list, rotate and revoke API keys."""
    context.obj = (context.obj, data_dir)


@keys.command()
@click.option("--name", required=True, help="A name that says what the key is for.")
@click.option("--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Its namespace.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What the key may do. Repeat it for several. [default: all scopes except operate and"
    " subjects:erase]",
)
@click.option("--plan", help="A plan of the settings. Its limits apply to the key.")
@click.option("--expires", help="When it expires: 90d, 12h or a time (2027-01-31T00:00:00Z).")
@click.pass_context
def create(
    context: click.Context,
    name: str,
    namespace: str,
    scopes: tuple[str, ...],
    plan: str | None,
    expires: str | None,
) -> None:
    """Create a key and print it to stdout. It is shown only once."""

    async def act(store: AccessStore, settings: Settings, now_ms: int) -> None:
        draft = KeyDraft(
            name,
            frozenset(Scope(scope) for scope in scopes) or DEFAULT_SCOPES,
            plan,
            None if expires is None else _instant_ms(expires, now_ms),
        )
        giver = Principal(namespace, COMMAND, EVERY_SCOPE)
        faults = namespace_faults(namespace) + faults_of(draft, giver, settings.plans, now_ms)
        if faults:
            raise invalid(*faults)
        token = token_of(str(ULID.from_timestamp(now_ms)), secrets.token_bytes(SECRET_BYTES))
        key = ApiKey(
            id=token.key_id,
            namespace=namespace,
            name=draft.name,
            scopes=draft.scopes,
            created_at_ms=now_ms,
            created_by=COMMAND,
            secret_hash=hash_of(token.secret),
            plan=draft.plan,
            expires_at_ms=draft.expires_at_ms,
        )
        await store.create_key(key)
        click.echo(token.text)
        _say(f"This is API key {key.id} of namespace {namespace!r}; it is not shown again.")
        if settings.access_mode == "none":
            _say('Keys are not required yet: set access_mode = "keys".')

    _run(context, act)


@keys.command("list")
@click.option("--namespace", help="Only keys of this namespace.")
@click.pass_context
def list_keys(context: click.Context, namespace: str | None) -> None:
    """List all keys, including revoked and expired ones."""

    async def act(store: AccessStore, settings: Settings, now_ms: int) -> None:
        found = [key async for key in _all(store) if namespace in (None, key.namespace)]
        found.sort(key=lambda key: (key.namespace, key.id))
        _print(found, now_ms, settings.plans)

    _run(context, act)


@keys.command()
@click.argument("key_id")
@click.option(
    "--overlap",
    default=f"{KEY_OVERLAP_S // 3_600}h",
    show_default=True,
    help="How long the previous secret keeps working: 0, 30m, 12h, 7d.",
)
@click.pass_context
def rotate(context: click.Context, key_id: str, overlap: str) -> None:
    """Give the key KEY_ID a new secret and print it to stdout. It is shown only once."""

    async def act(store: AccessStore, _settings: Settings, now_ms: int) -> None:
        overlap_s = _duration_s(overlap)
        if overlap_s is None:
            reason = f"{overlap!r} is not a duration such as 0, 30m, 12h or 7d"
            raise invalid(Fault("overlap", reason))
        if faults := overlap_faults(overlap_s):
            raise invalid(*faults)
        key = await _named(store, key_id)
        token = token_of(key.id, secrets.token_bytes(SECRET_BYTES))
        rotation = Rotation(hash_of(token.secret), now_ms + overlap_s * 1_000)
        await store.rotate_key(key.namespace, key.id, rotation, now_ms)
        click.echo(token.text)
        until = rfc3339(rotation.overlap_until_ms)
        _say(f"The previous secret of API key {key.name!r} works until {until}.")

    _run(context, act)


@keys.command()
@click.argument("key_id")
@click.pass_context
def revoke(context: click.Context, key_id: str) -> None:
    """Revoke the key KEY_ID for good."""

    async def act(store: AccessStore, _settings: Settings, now_ms: int) -> None:
        key = await _named(store, key_id)
        await store.revoke_key(key.namespace, key.id, now_ms)
        whose = f"API key {key.name!r} of namespace {key.namespace!r}"
        _say(f"{whose} is revoked. Every process refuses it within 5 seconds.")

    _run(context, act)


def _run(context: click.Context, act: Act) -> None:
    """Do it on the control store of the settings; what is wrong is said in words."""
    config, data_dir = context.obj
    try:
        settings = load_settings(config, {"data_dir": data_dir})
        asyncio.run(_on_store(settings, act))
    except SettingsError as error:
        _say(f"meterline: {error}")
        sys.exit(EXIT_SETTINGS)
    except Problem as problem:
        # `invalid` tells the first fault in its detail
        lines = [f"{fault.field}: {fault.reason}" for fault in problem.faults] or [problem.detail]
        raise click.ClickException("\n".join(lines)) from problem
    except (Unavailable, Unsuitable, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _on_store(settings: Settings, act: Act) -> None:
    async with _opened(settings) as store:
        await act(store, settings, CLOCK.now_ms())


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[AccessStore]:
    # Imported here: other commands must not wait for what they do not use.
    from meterline.backends.control_store.access.keys import SqlAccessStore  # noqa: PLC0415
    from meterline.backends.control_store.engine import open_database  # noqa: PLC0415
    from meterline.backends.control_store.migrate import migrate  # noqa: PLC0415
    from meterline.backends.control_store.migrations.migrated import check_migrated  # noqa: PLC0415
    from meterline.runtime.wiring.control_access import control_access  # noqa: PLC0415

    database = open_database(settings.control_database_url, access=control_access(settings))
    try:
        if settings.control_url == "sqlite":
            await migrate(
                database
            )  # as `up` does: the first key may be made before its first start
        else:
            await check_migrated(database)
        yield SqlAccessStore(database)
    finally:
        await database.close()


async def _all(store: AccessStore) -> AsyncIterator[ApiKey]:
    """Keys of all namespaces."""
    place = (0, "")
    while page := await store.keys_changed(place, KEYS_READ_ROWS):
        for _, key in page:
            yield key
        place = page[-1][0]


async def _named(store: AccessStore, key_id: str) -> ApiKey:
    async for key in _all(store):
        if key.id == key_id.upper():
            return key
    raise click.ClickException(f"there is no API key {key_id!r}; see `meterline keys list`")


def _print(found: list[ApiKey], now_ms: int, plans: Collection[str]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "namespace", "name", "state", "plan", "scopes", "created", "last used"):
        table.add_column(heading, overflow="fold")
    for key in found:
        table.add_row(
            key.id,
            key.namespace,
            Text(key.name),  # not markup
            key.state(now_ms),
            f"{key.plan} (missing)" if lacks_plan(key, plans) else key.plan or "",
            _scopes(key.scopes),
            rfc3339(key.created_at_ms),
            "" if key.last_used_at_ms is None else rfc3339(key.last_used_at_ms),
        )
    if found:
        console.print(table)
    else:
        _say("There are no API keys.")
    if any(lacks_plan(key, plans) for key in found):
        _say(_MISSING)


def _scopes(scopes: Collection[Scope]) -> str:
    """What a key may do: where it is nearly all, what it may not."""
    lacking = ", ".join(sorted(EVERY_SCOPE.difference(scopes)))
    if DEFAULT_SCOPES.difference(scopes):
        return ", ".join(sorted(scopes))
    return f"all except {lacking}" if lacking else "all"


def _instant_ms(text: str, now_ms: int) -> int:
    """When a key ends: an instant, or so long from now."""
    seconds = _duration_s(text)
    if seconds is not None:
        return now_ms + seconds * 1_000
    try:
        return parse_instant(text)
    except (ValueError, OverflowError) as error:
        message = f"{text!r} is not a time such as 2027-01-31T00:00:00Z, nor a duration such as 90d"
        raise invalid(Fault("expires", message)) from error


def _duration_s(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None


def _say(message: str) -> None:
    click.echo(message, err=True)
