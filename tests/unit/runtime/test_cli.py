import subprocess
import sys

import click
import pytest

from meterline.runtime.cli import COMMANDS, main

IMPORTED = """
import sys
from meterline.runtime.cli import main
main(sys.argv[1:], standalone_mode=False)
print(sorted(name for name in sys.modules if name.startswith("meterline.runtime.commands.")))
"""

OF_A_WORKER = """
import gc, sys
from meterline.runtime import process
with process.lasting():
    import meterline.runtime.roles.aggregate
print(gc.isenabled(), gc.get_freeze_count() > 100_000)
print(*sys.modules, sep="\\n")
"""


def imported(*arguments: str) -> list[str]:
    """What the command line says, and which commands are imported then: the last line."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_its_own_help_begins_with(name: str) -> None:
    listed, command = main.commands[name], main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    for limit in (20, 45, 80, 200):
        assert listed.get_short_help_str(limit) == command.get_short_help_str(limit)


def test_the_list_imports_no_command_and_a_command_no_other() -> None:
    *said, names = imported("--help")
    assert names == "[]"
    listed = [line.split()[0] for line in said if line.startswith("  ") and line[2:3].isalpha()]
    assert listed[-len(main.commands) :] == sorted(main.commands)
    assert not [line for line in said if line[:2] == "  " and line.endswith("...")], (
        "a sentence was cut"
    )
    assert imported("doctor", "--help")[-1].count("commands.") == 3


def test_a_worker_that_counts_imports_neither_the_api_nor_what_reports_or_migrates() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_A_WORKER], check=True, capture_output=True, text=True
    )
    collects, *names = done.stdout.splitlines()
    assert collects == "True True"
    unwanted = (
        "control.routes", "control.v1", "control.openapi", "control.v3.installation.status",
        "dispatcher", "ingest.gateway", "alembic",
    )  # fmt: skip
    assert not [name for name in names if name.startswith(unwanted)]


def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(click.UsageError, match="No such command 'nothing'"):
        main(["nothing"], standalone_mode=False)
