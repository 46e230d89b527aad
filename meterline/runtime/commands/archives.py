"""`meterline backup`, `restore`, `export`, `import`: one archive, two directions, every set-up."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.settings.reading import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from meterline.runtime.archive.restoring import Audited, Restored

EXIT_DIFFERS: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_FAILED: Final = 3
_WRITE: Final = """
The folder must be empty, or not there. Everything goes on meanwhile. It then has the control store,
the usage that was sealed, the events that are not counted yet, and a manifest of digests. It holds
payloads of events, and secrets of reports that are encrypted. It does not hold the key to them
(`secret_key`, or the file secret.key): keep that elsewhere. Exit codes: 0 written, 2 wrong
settings, 3 failed."""
_READ: Final = """
The stores that the settings name must be empty. Restore only archives that you trust, and as the
user of the service. Every digest is checked before anything is written. In the end everything is
audited. If it is broken off, empty the stores and begin again. Exit codes: 0 clean, 1 the audit
found differences, 2 wrong settings, 3 failed."""


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _run(
    name: str,
    config: Path | None,
    work: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, Any]],
) -> Any:
    from meterline.runtime import process  # noqa: PLC0415 - an engine is slow to import

    try:
        settings = load_settings(config, {})
        process.configure_logs(settings.log_level)
        return process.run(partial(_until_stopped, partial(work, settings)))
    except SettingsError as error:
        click.echo(f"meterline: {error}", err=True)
        sys.exit(EXIT_SETTINGS)
    except (Unavailable, Unsuitable, OSError) as error:
        click.echo(f"meterline {name}: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except asyncio.CancelledError:
        click.echo(f"meterline {name}: stopped before its end", err=True)
        sys.exit(EXIT_FAILED)


async def _until_stopped(
    work: Callable[[asyncio.Event], Coroutine[Any, Any, Any]], stop: asyncio.Event
) -> Any:
    """The result of the work; a signal cancels it."""
    working, stopping = asyncio.ensure_future(work(stop)), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    return working.result()


def _writing(name: str, help_text: str) -> click.Command:
    @click.argument("folder", type=click.Path(path_type=Path, file_okay=False, resolve_path=True))
    @click.pass_context
    def command(context: click.Context, /, folder: Path) -> None:
        from meterline.runtime.archive.making import backup  # noqa: PLC0415 - as above

        _run(name, context.obj, lambda settings, stop: backup(folder, settings, stop, _tell))
        click.echo(f"{folder} is whole.", err=True)

    return click.command(name, help=f"{help_text}\n{_WRITE}", short_help=help_text)(command)


def _reading(name: str, help_text: str) -> click.Command:
    @click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
    @click.option(
        "--pause-reports",
        is_flag=True,
        help="Pause all reports: senders may send again before anything is reported.",
    )
    @click.option("--audit/--no-audit", default=True, help="Recount everything in the end.")
    @click.pass_context
    def command(
        context: click.Context, /, folder: Path, *, pause_reports: bool, audit: bool
    ) -> None:
        from meterline.runtime.archive.restoring import restore  # noqa: PLC0415 - as above

        done: Restored = _run(
            name,
            context.obj,
            lambda settings, _: restore(
                folder, settings, _tell, pause=pause_reports, audited=audit
            ),
        )
        report_restored(done)

    return click.command(name, help=f"{help_text}\n{_READ}", short_help=help_text)(command)


def report_restored(done: "Restored") -> None:
    """What came of it, and what to do next."""
    if done.audited is None:
        click.echo("Nothing was audited. Run `meterline audit` once it is started.", err=True)
    else:
        _report_audit(done.audited)
    lines = ["Restored. Next: start the processes."]
    if done.log_number > 1:
        lines.append(f"Set log_accepted to {done.log_id} first: this is not the first log.")
    made_at = done.manifest.made_at
    lines.append(f"Send again what was sent after {made_at}: nothing counts twice.")
    if done.paused:
        lines.append(f"Then resume the {done.paused} reports that were paused.")
    lines.append(
        f"Keys that were revoked after {made_at} are valid again, and secrets are as they were"
        " then. Revoke and rotate them again. Pause or delete again the reports that were paused or"
        " deleted since, and erase again the subjects that were erased."
    )
    click.echo("\n".join(lines), err=True)


def _report_audit(audited: "Audited") -> None:
    """The first differences, how many there are, and what could not be compared."""
    for one in audited.findings:
        click.echo(
            f"{one.table} {one.place}: {one.name}: expected {one.expected}; found {one.found}"
        )
    for what, count in audited.unchecked.items():
        if count:
            click.echo(f"Not compared: {count:,} {what}.", err=True)
    if audited.differences:
        more = audited.differences - len(audited.findings)
        rest = f", {more:,} of them are not listed" if more else ""
        message = "Restore an older archive, or run `meterline audit --repair`."
        click.echo(f"{audited.differences:,} differences{rest}. {message}", err=True)
        sys.exit(EXIT_DIFFERS)
    click.echo(f"Clean: no differences in {audited.slices:,} slices.", err=True)


write_backup = _writing("backup", "Write a backup of all three stores to FOLDER.")
read_backup = _reading("restore", "Restore the backup in FOLDER into empty stores.")
write_export = _writing("export", "Write everything to FOLDER, to move it to another set-up.")
read_export = _reading("import", "Take over what was exported to FOLDER, into empty stores.")
