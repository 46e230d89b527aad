import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner, Result

from meterline.access import EVERY_SCOPE, ApiKey, Change, Scope, Verdict, parse_token, verdict
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from meterline.runtime.cli import main
from meterline.runtime.settings.fields import ENV_PREFIX
from meterline.window import DAY_MS

pytestmark = pytest.mark.standard

T = TypeVar("T")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, without any METERLINE_* variable; return the folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
    return tmp_path


def run(*arguments: str, config: str | None = None) -> Result:
    """Run `meterline keys`, in the data folder `data`."""
    first = [] if config is None else ["--config", config]
    return CliRunner().invoke(main, [*first, "keys", "--data", "data", *arguments])


def made(*arguments: str, config: str | None = None) -> str:
    """Make a key; the only thing on stdout is its token."""
    result = run("create", *arguments, config=config)
    assert result.exit_code == 0, result.stderr
    token = parse_token(result.stdout.removesuffix("\n"))
    assert token is not None
    assert token.secret not in result.stderr
    assert token.key_id in result.stderr
    return token.text


def refused(*arguments: str, config: str | None = None) -> str:
    """The words of a refusal; nothing is on stdout."""
    result = run(*arguments, config=config)
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr


def in_store(ask: Callable[[SqlAccessStore], Awaitable[T]]) -> T:
    """What the store in the data folder answers."""

    async def answer() -> T:
        database = open_database("sqlite:///data/control.db")
        try:
            return await ask(SqlAccessStore(database))
        finally:
            await database.close()

    return asyncio.run(answer())


def kept(namespace: str = "default") -> list[ApiKey]:
    return in_store(lambda store: store.keys(namespace, 100))


def judged(text: str) -> Verdict:
    token = parse_token(text)
    assert token is not None
    (key,) = [key for key in kept() if key.id == token.key_id]
    return verdict(key, token, SystemClock().now_ms())


def test_the_first_key_can_be_made_before_the_first_start() -> None:
    text = made("--name", "first")
    (key,) = kept()
    assert (key.name, key.namespace, key.plan, key.created_by) == (
        "first",
        "default",
        None,
        "command",
    )
    assert key.scopes == EVERY_SCOPE - {Scope.OPERATE, Scope.SUBJECTS_ERASE}
    assert judged(text) is Verdict.GOOD


def test_a_key_has_what_the_options_say(folder: Path) -> None:
    (folder / "meterline.toml").write_text("[plans.small]\nrequests = { quota = 5 }\n")
    before_ms = SystemClock().now_ms()
    options = ["--namespace", "shop", "--scope", "operate", "--scope", "events:write"]
    made("--name", "a", *options, "--plan", "small", "--expires", "90d")
    after_ms = SystemClock().now_ms()
    (key,) = kept("shop")
    assert key.scopes == {Scope.OPERATE, Scope.EVENTS_WRITE}
    assert key.plan == "small"
    assert key.expires_at_ms is not None
    assert before_ms <= key.expires_at_ms - 90 * DAY_MS <= after_ms


def test_a_plan_that_the_settings_lost_is_listed_as_missing(folder: Path) -> None:
    settings = folder / "meterline.toml"
    settings.write_text("[plans.small]\n")
    made("--name", "a", "--plan", "small")
    made("--name", "b")
    listed = run("list")
    assert ("missing" in listed.stdout, listed.stderr) == (False, "")
    settings.write_text("[plans.large]\n")
    listed = run("list")
    (line,) = [line for line in listed.stdout.splitlines() if "(missing)" in line]
    assert "small (missing)" in line
    assert "the settings have no plan of this name" in listed.stderr


def test_an_end_may_be_an_instant() -> None:
    made("--name", "a", "--expires", "2099-01-31T00:00:00+01:00")
    assert [key.expires_at_ms for key in kept()] == [4_073_497_200_000]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", ""], "name: 1 to 256 characters"),
        (["--name", "a", "--namespace", "a b"], "namespace: 1 to 64"),
        (["--name", "a", "--plan", "x"], "the settings have no plans"),
        (["--name", "a", "--scope", "root"], "'root' is not one of 'events:write'"),
        (["--name", "a", "--expires", "soon"], "expires: 'soon' is not a time"),
        (["--name", "a", "--expires", "2001-01-01T00:00:00Z"], "expires_at: is over already"),
        ([], "Missing option '--name'"),
    ],
)
def test_what_can_not_be_made_is_told(options: list[str], said: str) -> None:
    assert said in refused("create", *options)


def test_all_faults_are_told_at_once() -> None:
    words = refused("create", "--name", "", "--namespace", "-", "--plan", "x")
    assert [line.split(":")[0] for line in words.removeprefix("Error: ").splitlines()] == [
        "namespace",
        "name",
        "plan",
    ]


def test_it_says_when_nobody_is_asked_for_keys(folder: Path) -> None:
    assert 'access_mode = "keys"' in run("create", "--name", "a").stderr
    (folder / "other.toml").write_text('access_mode = "keys"\n')
    told = CliRunner().invoke(
        main, ["--config", "other.toml", "keys", "--data", "data", "create", "--name", "a"]
    )
    assert "access_mode" not in told.stderr


def test_the_list_shows_keys_of_all_namespaces_or_one(folder: Path) -> None:
    (folder / "meterline.toml").write_text("[plans.small]\n")
    one = made("--name", "the [bold]first[/] one", "--plan", "small")
    two = made("--name", "second", "--namespace", "shop", "--scope", "events:write")
    lines = run("list").stdout.splitlines()
    assert lines[0].startswith("id ")
    assert [line.split()[:2] for line in lines[1:]] == [
        [one.split("_")[1], "default"],
        [two.split("_")[1], "shop"],
    ]
    assert "the [bold]first[/] one" in lines[1]
    assert " small " in lines[1]
    assert " events:write " in lines[2]
    (line,) = run("list", "--namespace", "shop").stdout.splitlines()[1:]
    assert line.split() == lines[2].split()
    for text in (one, two):
        assert text.split("_", 2)[2] not in "".join(lines)


@pytest.mark.parametrize(
    ("scopes", "shown"),
    [
        (frozenset[Scope](), "all except operate, subjects:erase"),
        (EVERY_SCOPE - {Scope.OPERATE}, "all except operate"),
        (EVERY_SCOPE, "all"),
        (EVERY_SCOPE - {Scope.USAGE_READ}, None),
        (frozenset({Scope.STATUS_READ, Scope.EVENTS_WRITE}), "events:write, status:read"),
    ],
    ids=["as made", "erases", "everything", "reads no usage", "two"],
)
def test_the_list_says_what_a_key_may_not_do_where_that_is_little(
    scopes: frozenset[Scope], shown: str | None
) -> None:
    made("--name", "a", *(part for scope in sorted(scopes) for part in ("--scope", scope.value)))
    (line,) = run("list").stdout.splitlines()[1:]
    assert f"  {shown or ', '.join(sorted(scopes))}  " in line


def test_an_empty_list_is_told() -> None:
    result = run("list")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "no API keys" in result.stderr


def test_a_rotated_key_has_a_new_secret_and_the_old_one_for_a_while() -> None:
    old = made("--name", "a")
    result = run("rotate", old.split("_")[1].lower(), "--overlap", "1h")
    new = result.stdout.removesuffix("\n")
    assert judged(new) is Verdict.GOOD
    assert judged(old) is Verdict.PREVIOUS
    assert "works until" in result.stderr
    third = run("rotate", old.split("_")[1], "--overlap", "0").stdout.removesuffix("\n")
    assert judged(third) is Verdict.GOOD
    assert judged(new) is Verdict.REPLACED
    assert judged(old) is Verdict.WRONG


@pytest.mark.parametrize("overlap", ["-1", "x", "1w", "99d", "1.5h"])
def test_an_overlap_that_is_none_is_told(overlap: str) -> None:
    key_id = made("--name", "a").split("_")[1]
    assert "overlap" in refused("rotate", key_id, f"--overlap={overlap}")


def test_a_revoked_key_is_revoked_for_good() -> None:
    text = made("--name", "a")
    key_id = text.split("_")[1]
    for _ in range(2):
        result = run("revoke", key_id)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "'a'" in result.stderr
    assert judged(text) is Verdict.REVOKED
    assert "revoked" in refused("rotate", key_id)
    assert " revoked " in run("list").stdout


def test_a_key_that_is_not_there_is_told() -> None:
    for command in ("rotate", "revoke"):
        assert "there is no API key 'x'; see `meterline keys list`" in refused(command, "x")


def test_what_a_command_did_is_recorded() -> None:
    key_id = made("--name", "a").split("_")[1]
    run("rotate", key_id)
    run("revoke", key_id)
    changes: list[Change] = in_store(lambda store: store.changes("default", 10))
    told = [(change.author, change.action.value, change.subject_id) for change in changes]
    assert told == [
        ("command", "revoke", key_id),
        ("command", "rotate", key_id),
        ("command", "create", key_id),
    ]


def test_a_control_store_that_is_away_or_a_faulty_setting_is_told(folder: Path) -> None:
    (folder / "away.toml").write_text('control_url = "postgresql://m:hunter2@127.0.0.1:1/m"\n')
    words = refused("list", config="away.toml")
    assert "control store" in words
    assert "hunter2" not in words
    (folder / "faulty.toml").write_text("port = -1\n")
    words = refused("list", config="faulty.toml")
    assert "port (variable METERLINE_PORT)" in words
