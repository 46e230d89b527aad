"""The command line `meterline`: a command is imported when it is asked for, and no other is."""

import errno
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    import asyncio

    from meterline.runtime.settings.reading import Settings

EXIT_SETTINGS: Final = 2
EXIT_FAILED: Final = 1
GROW_TO: Final = "grow_to"  # an argument of `migrate`, and no setting

_HINT: Final = {
    errno.EEXIST: "a folder is expected here; move the file away, or set another folder",
    errno.ENOTDIR: "a folder is expected here; move the file away, or set another folder",
    errno.EISDIR: "a file is expected here; move the folder away, or set another folder",
    errno.EACCES: "allow the user of the process to write here, or set another folder",
    errno.EPERM: "allow the user of the process to write here, or set another folder",
    errno.EROFS: "mount it writable, or set another folder",
    errno.ENOENT: "it cannot be created there; set another folder",
    errno.ENOSPC: "free some space, then start again",
}

Role = Callable[["Settings", "asyncio.Event"], Coroutine[Any, Any, None]]

# Where a command is, and the first sentence of its help, as the command has it.
COMMANDS: Final = {
    "audit": ("audit", "audit", "Recount everything that is stored, and print what differs."),
    "backup": ("archives", "write_backup", "Write a backup of all three stores to FOLDER."),
    "doctor": ("doctor.command", "doctor", "Check the set-up, and say what to change."),
    "erase": ("erase", "erase", "Erase a subject: its name and payloads go, its usage stays."),
    "export": (
        "archives",
        "write_export",
        "Write everything to FOLDER, to move it to another set-up.",
    ),
    "import": (
        "archives",
        "read_export",
        "Take over what was exported to FOLDER, into empty stores.",
    ),
    "keys": ("keys", "keys", "Create, list, rotate and revoke API keys."),
    "receive": ("receive", "receive", "Run a receiver: verify deliveries, and print them."),
    "reconcile": (
        "reconcile",
        "reconcile_booked",
        "Compare what a receiver booked with what was sent to it.",
    ),
    "restore": ("archives", "read_backup", "Restore the backup in FOLDER into empty stores."),
    "send": ("send.command", "send", "Send the events of FILE, from NDJSON or CSV."),
}
SHORT: Final = frozenset({"backup", "doctor", "erase", "export", "import", "restore"})
"""Those whose sentence is never cut off in the list."""


class Later(click.Command):
    """A command that is not imported yet."""

    def __init__(self, name: str) -> None:
        module, self._attribute, summary = COMMANDS[name]
        self._module = f"meterline.runtime.commands.{module}"
        super().__init__(name, help=summary, short_help=summary if name in SHORT else None)

    def load(self) -> click.Command:
        """The command itself."""
        command: click.Command = getattr(import_module(self._module), self._attribute)
        return command


class Commands(click.Group):
    """A group that imports a command when it is run, or its own help is asked for."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See `click.Group`."""
        found = super().get_command(ctx, cmd_name)
        return found.load() if isinstance(found, Later) else found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`; nothing is imported for the list."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        rows = [(name, self.commands[name].get_short_help_str(limit)) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="meterline")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file. [default: meterline.toml]"
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Count usage events exactly, and send usage reports as signed webhooks.

    `meterline up` runs everything in one process. `meterline COMMAND --help` has the options.
    """
    context.obj = config


def _role_command(name: str, role_name: str, help_text: str) -> click.Command:
    """A command that runs one role, with the options that every role has."""

    @click.option("--port", type=int, help="Port to listen on; 0: a free one. [default: 8888]")
    @click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
    @click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder.")
    @click.pass_context
    def command(context: click.Context, /, **given: object) -> None:
        _run(context.obj, given, role_name)

    made = click.command(name, help=help_text)(command)
    if name == "ingest":
        message = "Processes that share the port. SIGHUP replaces them one by one. [default: 1]"
        made.params.append(click.Option(["--workers"], type=int, help=message))
    if name == "migrate":
        message = (
            "Give a log on Kafka so many partitions, while everything runs: a multiple of its own."
        )
        made.params.append(click.Option(["--partitions", GROW_TO], type=int, help=message))
    return made


ROLES: Final = {
    "up": ("up", "Run the whole product in one process and one folder."),
    "ingest": ("ingest", "Run the gateway: accept events and append them to the log."),
    "aggregate": ("aggregate", "Run an aggregator: count the events of the log."),
    "dispatch": ("dispatch", "Run a dispatcher: run reports and send their deliveries."),
    "control": ("control", "Run the whole API: events, meters, usage, reports."),
    "migrate": ("migrate_all", "Create or upgrade topic and tables for this release, then exit."),
}
for _name, (_role_name, _help_text) in ROLES.items():
    main.add_command(_role_command(_name, _role_name, _help_text))
for _name in COMMANDS:
    main.add_command(Later(_name))


def _run(config: Path | None, overrides: dict[str, object], role_name: str) -> None:
    """Run a role until it is told to stop; what is wrong is said in words, with an exit code."""
    import asyncio  # noqa: PLC0415 - as everything here: the list of commands needs none of it

    from meterline.runtime.settings.reading import SettingsError, load_settings  # noqa: PLC0415

    grow_to = overrides.pop(GROW_TO, None)
    try:
        settings = load_settings(config, overrides)
        _run_role(settings, role_name, grow_to)
    except SettingsError as error:
        click.echo(f"meterline: {error}", err=True)
        sys.exit(EXIT_SETTINGS)
    except asyncio.CancelledError:
        pass  # stopped while it waited for a part
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        click.echo(f"meterline: {message}", err=True)
        sys.exit(EXIT_FAILED)


def _run_role(settings: "Settings", role_name: str, grow_to: object = None) -> None:
    from meterline.runtime import allocator, process  # noqa: PLC0415
    from meterline.runtime.workers import supervisor, worker  # noqa: PLC0415

    allocator.bound_allocator()
    allocator.bound_engine_allocator()
    process.configure_logs(settings.log_level)
    process.tell_crashes()
    if role_name == "ingest" and settings.workers > 1 and not worker.is_worker():
        sys.exit(process.run(supervisor.of_gateways(settings)))
    if isinstance(grow_to, int):
        from meterline.runtime.commands import growing  # noqa: PLC0415

        process.run(partial(growing.grow, settings, partitions=grow_to))
        return
    with process.lasting():  # else they are walked over again and again
        module = import_module(f"meterline.runtime.roles.{role_name}")
    role: Role = getattr(module, role_name)
    process.run(partial(role, settings), logged=True)


def _message(error: BaseException) -> str | None:
    """The words of an error that a person can do something about; None for a fault of ours."""
    from meterline.ports import Unavailable, Unsuitable  # noqa: PLC0415
    from meterline.problem import Problem  # noqa: PLC0415

    if isinstance(error, BaseExceptionGroup):
        message = [_message(one) for one in error.exceptions]
        return None if None in message else "; ".join(filter(None, message))
    if isinstance(error, OSError):
        return _os_hint(error)
    if isinstance(error, Unavailable | Unsuitable | Problem):
        return str(error)
    return None


def _os_hint(error: OSError) -> str:
    """What the system refused, on what, and what to do."""
    hint = _HINT.get(error.errno or 0)
    if hint is None:
        return str(error)
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{os.strerror(error.errno or 0)}: {hint}"
