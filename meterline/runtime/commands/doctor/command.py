"""`meterline doctor`: look at a set-up from this machine, and say what to do."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from meterline.ports import Unavailable
from meterline.runtime.commands.doctor.finding import TOPIC_RIGHTS, Finding, Level
from meterline.runtime.settings.reading import Settings, SettingsError, load_settings

EXIT_FAULT: Final = 1
EXIT_SETTINGS: Final = 2
PROXY_S: Final = 5
Look = Callable[[Settings], AsyncIterator[Finding]]


def _url(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    parts = urlsplit(given or "http://nowhere")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.BadParameter("give the URL of a receiver, such as https://billing.example.com/")
    return given


@click.command(short_help="Check the set-up, and say what to change.")
@click.option(
    "--webhook",
    metavar="URL",
    callback=_url,
    help="Also send one POST to this receiver. It has no usage and no signature, so any answer of"
    " the receiver is right.",
)
@click.option(
    "--role",
    type=click.Choice(list(TOPIC_RIGHTS)),
    help="Check only what this role needs. Without it, what all of them need together.",
)
@click.pass_context
def doctor(context: click.Context, webhook: str | None, role: str | None) -> None:
    """Check settings, servers, topic, tables, rights, versions, clocks, disk and keys.

    It changes nothing, and may run beside everything else. Run it as the user and with the settings
    of the process in question. The exit code is 0 if nothing keeps it from working, 1 if something
    does, 2 if the settings are invalid.
    """
    path: Path | None = context.obj
    try:
        settings = load_settings(path)
    except SettingsError as error:
        click.echo(f"meterline: {error}", err=True)
        sys.exit(EXIT_SETTINGS)
    if asyncio.run(_look(settings, webhook, role)):
        sys.exit(EXIT_FAULT)


async def _look(settings: Settings, webhook: str | None, role: str | None) -> int:
    """Print each finding; how many faults there are."""
    faults = warnings = 0
    async for finding in findings(settings, webhook, role):
        click.echo(finding.line)
        faults += finding.level is Level.FAULT
        warnings += finding.level is Level.WARNING
    click.echo(f"{faults} faults, {warnings} warnings")
    return faults


async def findings(
    settings: Settings, webhook: str | None = None, role: str | None = None
) -> AsyncIterator[Finding]:
    """Everything that can be looked at, or what a role needs; and the way to a receiver that is
    named.
    """
    # Imported here: other commands must not wait for what they do not use.
    from meterline.runtime.commands.doctor import machine, servers  # noqa: PLC0415

    yield Finding("settings", Level.OK, "they are valid")
    for finding in machine.look_at_machine(settings):
        yield finding
    if settings.embedded:
        message = "stores are in data_dir. Ask a running process for more: GET /readyz"
        yield Finding("stores", Level.OK, message)
    gateway = role == "ingest"  # it needs the log, and API keys
    of_keys = settings.access_mode == "keys" or not gateway
    looks: list[tuple[str, bool, Look]] = [
        ("log", bool(settings.kafka_servers), partial(servers.look_at_kafka, role=role)),
        ("usage", settings.usage_url != "chdb" and not gateway, servers.look_at_clickhouse),
        ("control", settings.control_url != "sqlite" and of_keys, servers.look_at_postgresql),
    ]
    for part, there, look in looks:
        if there:
            async for finding in _reached(settings, part, look):
                yield finding
    if settings.webhook_proxy is not None:
        yield await _proxy(settings.webhook_proxy)
    if webhook is not None:
        from meterline.runtime.commands.doctor.webhook import look_at_webhook  # noqa: PLC0415

        yield await look_at_webhook(settings, webhook)


async def _reached(settings: Settings, part: str, look: Look) -> AsyncIterator[Finding]:
    """What a look finds; where its server cannot be used, why."""
    from meterline.runtime import start_timeout  # noqa: PLC0415

    found = []
    try:
        with start_timeout.quiet():
            found = [finding async for finding in look(settings)]
    except Unavailable as error:
        server = start_timeout.servers(settings)[part]  # type: ignore[index] # one of its names
        found = [Finding(server.name, Level.FAULT, await start_timeout.diagnosis(server, error))]
    for finding in found:
        yield finding


async def _proxy(url: str) -> Finding:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    try:
        async with asyncio.timeout(PROXY_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        message = (
            f"webhook_proxy {host}:{port} cannot be reached ({str(error) or 'no answer'}): start it"
        )
        return Finding("webhooks", Level.FAULT, f"{message}, or correct webhook_proxy")
    writer.close()
    return Finding("webhooks", Level.OK, f"webhook_proxy {host}:{port} takes connections")
