"""The style rules as functions: source text in, findings (one line each) out."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Final

FILE_LINES_MAX: Final = 400
# Every bound is in one file, so that they are read side by side: it is a list, without functions.
ONE_LIST: Final = "meterline/limits.py"
LIST_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 60
FOLDER_ENTRIES_MAX: Final = 15
PREFIX_FILES_MAX: Final = 3
BUILT: Final = "control/console/"
PRODUCT: Final = ("meterline/", "ingest/", "aggregator/", "dispatcher/", "control/")
BANNED_NAMES: Final = frozenset({"utils", "helpers", "common", "misc", "base", "manager"})

CLOCK_CALLS: Final = frozenset(
    {
        *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns")),
        *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
        "datetime.date.today",
        "time.clock_gettime",
    }
)
STOPWATCHES: Final = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"})
CLOCK_ALLOWED: Final = ("meterline/backends/clock.py", "demo/", "tests/")
PRINT_ALLOWED: Final = ("meterline/runtime/cli", "demo/", "examples/")
# Types of which msgspec keeps nothing, and the one file that has it learn others later: in turn.
PLAIN_TYPES: Final = frozenset(
    {"Any", "Raw", "msgspec", "object", "bool", "int", "float", "str", "bytes"}
    | {"dict", "list", "set", "tuple"}
)
LEARNED_LATER: Final = "meterline/backends/control_store/store.py"

# Put together, so that this file does not contain what it looks for.
_REGISTRIES: Final = (
    ("py", "pi.org"),
    ("files.python", "hosted.org"),
    ("registry.", "npmjs.org"),
    ("repo1.maven", ".org"),
    ("repo.maven", ".apache.org"),
    ("crates", ".io"),
    ("proxy.go", "lang.org"),
    ("registry-1.", "docker.io"),
)
_HOSTS: Final = re.compile("|".join(re.escape(left + right) for left, right in _REGISTRIES))
_MACHINE_PATH: Final = re.compile(r"(?<![\w./-])/(?:" + "|".join(("wo" + "rk", "ro" + "ot")) + ")/")


@cache
def _tree(source: str) -> ast.Module:
    """Parsed once, for all rules."""
    return ast.parse(source)


def file_length(path: str, source: str) -> Iterator[str]:
    """A module is read in one sitting."""
    lines = source.count("\n")
    most = LIST_LINES_MAX if path == ONE_LIST else FILE_LINES_MAX
    if lines > most:
        yield f"{lines} lines, at most {most}: split it by concept"


def function_length(source: str) -> Iterator[str]:
    """A function fits on a screen; its docstring counts, its decorators do not."""
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None, "parsed from text"
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"line {node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES_MAX} max"


def banned_name(path: str) -> Iterator[str]:
    """A name says what is inside, and these say nothing."""
    for part in PurePosixPath(path).parts:
        stem = part.split(".", maxsplit=1)[0]
        if stem in BANNED_NAMES:
            yield f"{stem!r} says nothing: name it after what it holds"


def clock_read(path: str, source: str) -> Iterator[str]:
    """Time is an argument; one file reads the clock."""
    if path.startswith(CLOCK_ALLOWED):
        return
    for line, name in _uses(source):
        if name in CLOCK_CALLS:
            yield f"line {line}: {name}: take `now_ms` or a Clock (meterline/backends/clock.py)"


def wall_time_asserted(source: str) -> Iterator[str]:
    """No test compares how long something took: on a busy machine it fails. A simulated clock says
    what the rule is worth, a deadline ends what hangs.
    """
    for function in ast.walk(_tree(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = _named_after_clock(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Assert) and any(
                    isinstance(it, ast.Compare) and _of_clock(it, names)
                    for it in ast.walk(node.test)
                ):
                    yield f"line {node.lineno}: wall time: let the test tell it (VirtualLoop)"


def _named_after_clock(function: ast.AST) -> set[str]:
    """The names that hold a wall time, or were computed from one."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _of_clock(node.value, names):
            stored = (it for target in node.targets for it in ast.walk(target))
            names |= {it.id for it in stored if isinstance(it, ast.Name)}
    return names


def _of_clock(node: ast.AST, names: Collection[str]) -> bool:
    return any(
        (isinstance(it, ast.Attribute) and it.attr in STOPWATCHES)
        or (isinstance(it, ast.Name) and (it.id in names or it.id in STOPWATCHES))
        for it in ast.walk(node)
    )


def learned_late(path: str, source: str) -> Iterator[str]:
    """A type is met by msgspec while its module is imported: it learns a type when it first meets
    it, and another thread that uses the type meanwhile crashes the process.
    """
    if not path.startswith(PRODUCT) or path == LEARNED_LATER:
        return
    lines = {
        node.lineno
        for function in ast.walk(_tree(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and not _names(_learned_by(node)) <= PLAIN_TYPES
    }
    for line in sorted(lines):
        yield f"line {line}: a type that is learned late: make a `Decoder` beside the functions"


def _learned_by(call: ast.Call) -> list[ast.expr]:
    """What a call gives msgspec as a type."""
    called = _dotted(call.func)
    places = {"convert": call.args[1:2], "Decoder": call.args[:1], "decode": []}
    if called[0] != "msgspec" or called[-1] not in places:
        return []
    return [*places[called[-1]], *(it.value for it in call.keywords if it.arg == "type")]


def _names(types: Iterable[ast.expr]) -> set[str]:
    nodes = [node for it in types for node in ast.walk(it)]
    ids = {node.id for node in nodes if isinstance(node, ast.Name)}
    return ids | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def mock_used(source: str) -> Iterator[str]:
    """Embedded adapters are the fakes; patching our own code repeats it."""
    for line, name in _uses(source):
        if name.startswith("unittest.mock") or name.split(".")[0] in {"mock", "pytest_mock"}:
            yield f"line {line}: {name}: use an embedded adapter"
        if name == "monkeypatch.setattr":
            yield f"line {line}: {name}: pass what varies as an argument (setenv, chdir are fine)"


def print_used(path: str, source: str) -> Iterator[str]:
    """Only what talks to a person prints; the rest logs."""
    if path.startswith(PRINT_ALLOWED):
        return
    for node in ast.walk(_tree(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield f"line {node.lineno}: print: log it"


def foreign_place(text: str) -> Iterator[str]:
    """No registry's host name and no path of one machine: each user has their own."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = _HOSTS.search(line) or _MACHINE_PATH.search(line)
        if found is not None:
            yield f"line {number}: {found[0]!r}"


def crowded_folders(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """One glance says what lives in a folder of the product. `__init__.py` and `py.typed` are no
    entries, migrations are a sequence, and what the console is built into is no code.
    """
    entries: dict[str, set[str]] = {}
    for path in paths:
        parts = PurePosixPath(path).parts
        counted = "versions" not in parts and not path.startswith(BUILT)
        if path.startswith(PRODUCT) and counted:
            for depth in range(1, len(parts)):
                entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    for folder, names in sorted(entries.items()):
        found = len(names - {"__init__.py", "py.typed"})
        if found > FOLDER_ENTRIES_MAX:
            yield folder, f"{found} entries, at most {FOLDER_ENTRIES_MAX}: make a folder of a noun"


def repeated_folder_names(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A file's name does not begin with its folder's (`report/report_body.py`), and a prefix that
    three files of a folder have is a folder that was not made.
    """
    prefixes: dict[tuple[str, str], int] = {}
    for path in paths:
        if not path.startswith(PRODUCT):
            continue
        folder, stem = PurePosixPath(path).parent, PurePosixPath(path).stem
        if stem.startswith((f"{folder.name}_", f"{folder.name.removesuffix('s')}_")):
            yield path, f"repeats its folder {folder.name!r}"
        prefix, _, rest = stem.strip("_").partition("_")
        if rest and "versions" not in folder.parts:
            prefixes[str(folder), prefix] = prefixes.get((str(folder), prefix), 0) + 1
    for (place, prefix), count in prefixes.items():
        if count >= PREFIX_FILES_MAX:
            yield place, f"{count} files begin with {prefix!r}: make it a folder"


def more_than_protocols(source: str) -> Iterator[str]:
    """The ports are shapes: protocols, their errors and type aliases, and nothing that runs."""
    for node in _tree(source).body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
                continue
            case ast.Assign() | ast.AnnAssign():
                continue  # a constant or a type alias
            case ast.ClassDef() if _is_shape(node):
                continue
        yield f"line {node.lineno}: neither a Protocol nor an error"


def _is_shape(node: ast.ClassDef) -> bool:
    named = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return any(
        isinstance(base, ast.Name)
        and (base.id == "Protocol" or base.id.endswith(("Error", "Exception", "Unavailable")))
        for base in named
    )


def _uses(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, full name) of every import and every dotted name, seen through the imports."""
    tree = _tree(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                names[bound] = alias.name if alias.asname else bound
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = _dotted(node)
            yield node.lineno, ".".join((names.get(first, first), *rest))


def _dotted(node: ast.expr) -> list[str]:
    match node:
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            return [*_dotted(node.value), node.attr]
    return ["?"]
