"""The pages for people agree with the product: links, commands, settings, tables, examples."""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import pytest

from control.v3.meters.bodies import MeterBody
from dispatcher.sending.signing import signed_headers
from docs import (
    benchmark_plots,
    fault_table,
    limit_table,
    memory_table,
    metrics_table,
    operation_table,
    problem_table,
    scope_table,
    settings_table,
    tree,
)
from meterline.backends.clock import SystemClock
from meterline.http import problem_response
from meterline.http.mounting import V3_PREFIXES
from meterline.meter import faults_of
from meterline.problem import Fault, Problem, ProblemType
from meterline.runtime.cli import main
from meterline.runtime.settings.fields import ENV_PREFIX, Settings
from meterline.runtime.settings.reading import CONFIG_VARIABLE, TEST_PREFIX
from tests.services.choose import CHOICES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples" / "receivers").glob("*.md"),
        *(ROOT / "examples" / "receivers").glob("*/*.md"),
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(GET|HEAD|POST|PUT|PATCH|DELETE)\s(/[^\s`?]*)")
PLACEHOLDER = re.compile(r"\{\w+\}")
TABLES: tuple[tuple[str, Any], ...] = (
    ("README.md", settings_table),
    ("docs/api.md", problem_table),
    ("docs/api.md", operation_table),
    ("docs/api.md", limit_table),
    ("docs/access.md", scope_table),
    ("docs/metrics.md", metrics_table),
    ("docs/faults.md", fault_table),
    ("docs/benchmarks.md", benchmark_plots),
    ("docs/operations.md", memory_table),
    ("docs/architecture.md", tree),
)
# They also name what is not here.
NAMES_ELSEWHERE = {"docs/compatibility.md", "docs/problems/method-not-allowed.md"}
DOCUMENTS = ("/api/", "/api/v3/", "/api/v1/")
OPEN_PATHS = ("/", "/healthz", "/readyz", "/metrics", *(f"{at}openapi.yaml" for at in DOCUMENTS))
OPEN_PATHS += tuple(f"{at}openapi.json" for at in DOCUMENTS)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [code for found, code in FENCE.findall(text(name)) if found == language]


def anchors(page: Path) -> set[str]:
    """What `#name` can lead to on a page: its headings, and anchors set by hand."""
    source = FENCE.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", source, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', source))


def test_there_are_pages_to_check() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/api.md"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for link in LINK.findall(FENCE.sub("", text(name))):
        path, _, anchor = unquote(link).partition("#")
        assert "://" not in path, f"{link}: pages of others move; name them in words"
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("name", NAMES)
def test_every_make_target_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^ +|^)make ([a-z]+)", text(name), re.MULTILINE))
    assert named <= targets


def test_the_readme_names_every_target_that_people_use() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", text("Makefile"), re.MULTILINE))
    seldom = {"help", "lock", "clean"}
    assert targets - seldom == set(re.findall(r"make ([a-z]+)", text("README.md"))) & targets


def options_of(command: click.Command, words: list[str]) -> set[str]:
    """Options of a command, with those of its subcommand where the words name one."""
    known = {option for one in command.params for option in one.opts}
    if isinstance(command, click.Group) and words:
        assert words[0] in command.commands, words
        known |= options_of(command.commands[words[0]], words[1:])
    return known


def options(words: list[str]) -> set[str]:
    """Those of the command that a line begins with, and of the groups that it is in."""
    command: click.Command = main
    known = {"--help"}
    for word in words:
        if not isinstance(command, click.Group):
            break
        if word.startswith("-"):
            continue
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"there is no command {word}"
        command = found
        known |= {option for one in command.params for option in one.opts}
    return known


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_its_options_exist(name: str) -> None:
    lines = text(name).replace("\\\n", " ").splitlines()
    for line in lines:
        for words in re.findall(r"(?:^\s*|`|\$\()meterline ([a-z][^`|#]*)", line):
            used = {word for word in words.split() if word.startswith("--")}
            assert used <= options(words.split()), line


def test_the_readme_names_every_command() -> None:
    assert isinstance(main, click.Group)
    assert set(main.commands) == set(re.findall(r"`meterline ([a-z]+)", text("README.md")))


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_is_a_setting(name: str) -> None:
    known = {ENV_PREFIX + setting.upper() for setting in Settings.model_fields}
    known |= {CONFIG_VARIABLE, *(choice.variable for choice in CHOICES.values())}
    named = set(re.findall(rf"\b{ENV_PREFIX}\w*[A-Z]", text(name)))
    assert named - {TEST_PREFIX.rstrip("_")} <= known


def test_the_tables_are_those_of_the_product() -> None:
    for page, module in TABLES:
        assert module.made(text(page)) == text(page), f"run `python -m {module.__name__}`"


def test_the_example_of_settings_is_taken() -> None:
    (example,) = blocks("README.md", "toml")
    settings = Settings.model_validate(tomllib.loads(example))
    (meter,) = settings.meters
    body = MeterBody.model_validate_json(json.dumps({"name": meter["key"], **meter}))
    assert faults_of(body.draft()) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_example_in_json_is_json(name: str) -> None:
    for block in blocks(name, "json"):
        json.loads(block)
    for sent in re.findall(r"-d '(.*?)'", text(name), re.DOTALL):
        json.loads(sent)


def test_every_path_that_a_page_names_is_served() -> None:
    """Named as `GET /api/...`, with a placeholder or an example where it varies."""
    served = operation_table.places()
    served |= {(method, path) for path in OPEN_PATHS for method in ("GET", "HEAD")}
    patterns = [(method, re.compile(PLACEHOLDER.sub("[^/]+", path))) for method, path in served]
    for name in {*NAMES} - NAMES_ELSEWHERE:
        for method, path in NAMED.findall(text(name)):
            known = path.replace(*reversed(V3_PREFIXES))
            found = any(method == one and it.fullmatch(known) for one, it in patterns)
            assert found, f"{name}: {method} {path}"


def test_every_problem_has_a_page_and_every_page_a_problem() -> None:
    pages = {path.stem for path in problem_table.FOLDER.iterdir()}
    assert pages == {kind.slug for kind in ProblemType}


@pytest.mark.parametrize("kind", ProblemType, ids=lambda kind: kind.slug)
def test_the_page_of_a_problem_has_its_form(kind: ProblemType) -> None:
    page = text(f"docs/problems/{kind.slug}.md")
    assert page.startswith(problem_table.beginning(kind))
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == problem_table.HEADINGS


@pytest.mark.parametrize("kind", ProblemType, ids=lambda kind: kind.slug)
def test_the_examples_of_a_problem_are_what_the_product_answers(kind: ProblemType) -> None:
    examples = blocks(f"docs/problems/{kind.slug}.md", "json")
    for example, path in zip(examples, ("/api/v3/metering/x", "/api/v1/x"), strict=True):
        shown = json.loads(example)
        faults = tuple(Fault(**one) for one in shown.get("invalid_parameters", ()))
        request_id = shown["instance"].rpartition(":")[2]
        answer = problem_response(Problem(kind, shown["detail"], faults), request_id, path)
        assert isinstance(answer.body, bytes)
        assert json.loads(answer.body) == shown


def receiver() -> dict[str, Any]:
    """The receiver in Python of docs/webhooks.md, as a module that was imported."""
    (code,) = blocks("docs/webhooks.md", "python")
    module: dict[str, Any] = {"__name__": "receiver"}
    exec(compile(ast.parse(code), "docs/webhooks.md", "exec"), module)  # noqa: S102 - our own page
    return module


def test_the_receiver_on_the_page_books_what_is_signed_and_refuses_the_rest(
    capsys: pytest.CaptureFixture[str], now_ms: int
) -> None:
    status_for = receiver()["status_for"]
    (example, *_) = blocks("docs/webhooks.md", "json")
    body = example.encode()
    headers = signed_headers("dlv_one", [SECRET], body, now_ms)
    assert status_for(SECRET, headers, body) == 200
    assert capsys.readouterr().out == "acme {'model': 'small'} 350.25\n"
    assert status_for(SECRET, headers, body) == 200
    assert capsys.readouterr().out == "", "a copy is not booked"
    assert status_for(SECRET, headers, body + b" ") == 400
    assert status_for(SECRET, {}, body) == 400
    other = body.replace(b"report.meter", b"report.other")
    assert status_for(SECRET, signed_headers("dlv_two", [SECRET], other, now_ms), other) == 400


@pytest.fixture
def now_ms() -> int:
    """The library looks at the real clock."""
    return SystemClock().now_ms()
