"""What the pages for people name in code marks exists: files, modules, tests, names in files."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*/*.md"),
        *(ROOT / "examples").glob("*/*/*.md"),
        *(ROOT / "clients").glob("*/*.md"),
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
MADE = {"dist"}  # by `make`: what it holds differs from one checkout to another
ROOMS = tuple(
    one.name
    for one in ROOT.iterdir()
    if one.is_dir() and one.name not in MADE and not one.name.startswith((".", "meterline-"))
)
PACKAGES = ("aggregator", "control", "demo", "dispatcher", "ingest", "meterline", "tests")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
TEST = re.compile(r"test_\w+")
FILE = re.compile(r"[\w.*-]+\.(?:py|sql|toml|md|yaml|mjs|go|ts)")
MODULE = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[a-z_]\w*)+")
IN_FILE = re.compile(r"`([A-Za-z_]\w*)` in `([\w/.]+\.py)`")
# What a user has or makes, and what an installation makes; no files of ours.
ELSEWHERE = frozenset(
    {"control.db", "meterline.toml", "meterline.yaml", "schema.sql", "receiver.py"}
)
# Of time, and of what is planned: decisions are of their day.
HISTORY = "docs/decisions/"


@cache
def names_of_tests() -> frozenset[str]:
    """Names of all tests, and of the files that they are in."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= {path.stem, *re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))}
    return frozenset(found)


@cache
def files_by_name() -> frozenset[str]:
    """Names of all files that are kept."""
    rooms = [ROOT / room for room in ROOMS]
    found = {path.name for room in rooms for path in room.rglob("*.*") if path.is_file()}
    return frozenset(found | {path.name for path in ROOT.iterdir()})


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module or package, or a name within one."""
    *folders, last = name.split(".")
    path = ROOT.joinpath(*folders, last)
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    inside = ROOT.joinpath(*folders).with_suffix(".py")
    if not inside.is_file():
        inside = ROOT.joinpath(*folders) / "__init__.py"
    return inside.is_file() and re.search(rf"\b{last}\b", inside.read_text("utf-8")) is not None


def fault_of(token: str) -> str | None:
    """What is wrong with a text in code marks; None where it is right or names nothing of ours."""
    path, _, test = token.partition("::")
    room = path.partition("/")[0]
    if "/" in path and room in ROOMS and not re.search(r"[<>{}$ ]|NNNN", path):
        found = [one for one in ROOT.glob(path.rstrip("/")) if one.name != "__init__.py"]
        if not found and not path.endswith("__init__.py"):
            return "there is no such file"
        if test and f"def {test.partition('[')[0]}(" not in (ROOT / path).read_text("utf-8"):
            return "there is no such test in the file"
    elif TEST.fullmatch(token) and token not in names_of_tests():
        return "there is no such test"
    elif FILE.fullmatch(token) and token not in files_by_name() | ELSEWHERE:
        return "there is no such file"
    elif MODULE.fullmatch(token) and token not in ELSEWHERE and not module_exists(token):
        return "there is no such module"
    return None


def faults(source: str) -> list[str]:
    """What is wrong in a page."""
    prose = FENCE.sub("", source)
    found = [
        f"`{token}`: {fault}"
        for token in CODE.findall(prose)
        if (fault := fault_of(token.strip())) is not None
    ]
    for name, path in IN_FILE.findall(prose):
        file = ROOT / path
        if file.is_file() and not re.search(rf"\b{name}\b", file.read_text("utf-8")):
            found.append(f"`{name}` is not in `{path}`")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_names_exists(name: str) -> None:
    found = faults((ROOT / name).read_text("utf-8"))
    assert found == []


def test_names_are_found_on_the_pages() -> None:
    checked = [
        token
        for name in NAMES
        for token in CODE.findall(FENCE.sub("", (ROOT / name).read_text("utf-8")))
        if "/" in token and token.partition("/")[0] in ROOMS
    ]
    assert len(checked) > 50


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`aggregator/gone.py`", ["`aggregator/gone.py`: there is no such file"]),
        ("`control/v9_*.py`", ["`control/v9_*.py`: there is no such file"]),
        ("`control/v3/*.py`", ["`control/v3/*.py`: there is no such file"]),
        (
            "`tests/unit/test_docs_names.py::test_gone`",
            ["`tests/unit/test_docs_names.py::test_gone`: there is no such test in the file"],
        ),
        ("`test_that_is_gone`", ["`test_that_is_gone`: there is no such test"]),
        ("`gone_module.py`", ["`gone_module.py`: there is no such file"]),
        ("`meterline.gone`", ["`meterline.gone`: there is no such module"]),
        ("`gone` in `meterline/event/event.py`", ["`gone` is not in `meterline/event/event.py`"]),
        (
            (
                "`aggregator/slice/verdict.py` `meterline.event` `payload_check` in"
                " `meterline/event/event.py`"
            ),
            [],
        ),
        ("`/api/v3/metering` `docs/problems/<slug>.md` `a.b`", []),
    ],
)
def test_what_is_gone_is_told(text: str, found: list[str]) -> None:
    assert faults(text) == found


PAGE_IN_CODE = re.compile(r'([\w/.-]*\w+\.md)(?:, "([^"\n]+)")?')
SOURCES = sorted(path for room in PACKAGES for path in (ROOT / room).rglob("*.py"))


def is_kept(name: str) -> bool:
    """Whether there is a page of this name anywhere."""
    return name in files_by_name()


def missing_pages(source: str) -> list[str]:
    """Pages that code refers to and that are not kept, and headings that a page does not have."""
    found = []
    text = re.sub(r"\s*\n\s*(?:# )?", " ", source)  # a reference may go on in the next line
    for page, heading in PAGE_IN_CODE.findall(text):
        path = ROOT / page
        kept = path.is_file() if page.startswith("docs/") else "/" in page or is_kept(page)
        if not kept:
            found.append(page)
        elif heading and page.startswith("docs/"):
            named = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
            found += [] if any(heading in one for one in named) else [f"{page}, {heading}"]
    return found


def test_pages_that_code_refers_to_are_there() -> None:
    assert {
        str(path.relative_to(ROOT)): missing
        for path in SOURCES
        if path != Path(__file__).resolve()
        if (missing := missing_pages(path.read_text("utf-8")))
    } == {}


def test_a_page_that_is_not_kept_is_found() -> None:
    assert missing_pages('"""As planned (plan.md section 4)."""') == ["plan.md"]
    assert missing_pages('# docs/architecture.md,\n# "No such heading"') == [
        "docs/architecture.md, No such heading"
    ]
    assert missing_pages('# docs/architecture.md, "Blocks"') == []
