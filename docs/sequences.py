"""The sequence diagrams of docs/architecture.md, held to the calls in the code.

Each arrow names the function and the call that it shows. Drawing fails where the function does not
make that call, or makes it before the arrow above. `python -m docs.diagrams` draws them;
tests/unit/test_diagrams.py fails where the page differs.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A call from one participant to another; `text` says what it is for."""

    code: str  # file::function, or file::Class.method
    call: str  # as written in the code, without arguments: `self._log.append`
    source: str
    target: str
    text: str


EVENT: Final = (
    Arrow("ingest/gateway.py::Gateway._admitted", "read_body", "sender", "ingest", "POST events"),
    Arrow("ingest/gateway.py::Gateway._admitted", "admit", "ingest", "ingest", "validate events"),
    Arrow(
        "ingest/publisher.py::Publisher._append_all",
        "self._log.append",
        "ingest",
        "log",
        "append a pack, durable",
    ),
    Arrow("ingest/gateway.py::Gateway._post", "web.Response", "ingest", "sender", "202"),
    Arrow(
        "aggregator/step.py::Aggregator.read_some",
        "self.log.read",
        "aggregator",
        "log",
        "read records",
    ),
    Arrow(
        "aggregator/step.py::Aggregator._taken",
        "partition.absorb",
        "aggregator",
        "aggregator",
        "verdict, then fold into tallies",
    ),
    Arrow(
        "aggregator/slice/writer.py::Writer._write",
        "self._usage.write",
        "aggregator",
        "usage store",
        "write changed tallies",
    ),
    Arrow(
        "aggregator/slice/writer.py::Writer._write",
        "self._progress.flushed",
        "aggregator",
        "control store",
        "record how far it is counted",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_tell",
        "answers.ask",
        "dispatcher",
        "usage store",
        "read the usage of a window",
    ),
    Arrow(
        "dispatcher/sending/request.py::send_signed",
        "sender.send",
        "dispatcher",
        "receiver",
        "POST one delivery per subject, signed",
    ),
)
SLICE: Final = (
    Arrow(
        "aggregator/step.py::Aggregator._taken",
        "partition.closes_with",
        "aggregator",
        "aggregator",
        "does this record end the slice?",
    ),
    Arrow(
        "aggregator/step.py::Aggregator._end_slice",
        "partition.end_slice",
        "aggregator",
        "aggregator",
        "yes: the record begins another one",
    ),
    Arrow(
        "aggregator/step.py::Aggregator._begin_flush",
        "self._writer.start",
        "aggregator",
        "usage store",
        "flush what is not written yet",
    ),
    Arrow(
        "meterline/backends/clickhouse/store.py::ClickHouseUsageStore._write_rows",
        "self._insert_seen",
        "usage store",
        "usage store",
        "events, rejects, seen",
    ),
    Arrow(
        "meterline/backends/clickhouse/store.py::ClickHouseUsageStore._write_rows",
        "self._insert",
        "usage store",
        "usage store",
        "tallies, members, rejected",
    ),
    Arrow(
        "meterline/backends/clickhouse/store.py::ClickHouseUsageStore.write",
        "self._insert",
        "usage store",
        "usage store",
        "account",
    ),
    Arrow(
        "aggregator/slice/sealing.py::Sealer.stored",
        "self._usage.count_back",
        "aggregator",
        "usage store",
        "count back: rows and hashes of the slice",
    ),
    Arrow(
        "aggregator/slice/sealing.py::Sealer.stored",
        "self._usage.account",
        "aggregator",
        "usage store",
        "read the account back",
    ),
    Arrow(
        "aggregator/slice/sealing.py::Sealer.conclude",
        "self._judge",
        "aggregator",
        "aggregator",
        "if they differ: read the slice again",
    ),
    Arrow(
        "aggregator/slice/sealing.py::Sealer._seal",
        "self._progress.seal",
        "aggregator",
        "control store",
        "write the seal row",
    ),
    Arrow(
        "aggregator/slice/partition.py::Partition.seal_slice",
        "self.seen.apply",
        "aggregator",
        "seen store",
        "apply the keys of the slice",
    ),
)
DELIVERED: Final = (
    Arrow(
        "dispatcher/runs/planner.py::_record",
        "reports.plan",
        "dispatcher",
        "control store",
        "the window has ended: record a run (scheduled)",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_make_page",
        "judge.ready",
        "dispatcher",
        "control store",
        "is every partition complete?",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_make_page",
        "sources.reports.await_runs",
        "dispatcher",
        "control store",
        "no: the run waits (waiting)",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_make_page",
        "sources.reports.claim_run",
        "dispatcher",
        "control store",
        "yes: take the lease (materializing)",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_tell",
        "answers.ask",
        "dispatcher",
        "usage store",
        "read the usage of the window",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_tell",
        "write",
        "dispatcher",
        "control store",
        "store the bytes of each body",
    ),
    Arrow(
        "dispatcher/runs/planner.py::_tell",
        "reports.decide",
        "dispatcher",
        "control store",
        "make them final (delivering)",
    ),
    Arrow(
        "dispatcher/sending/attempt.py::claim_due",
        "reports.claim_deliveries",
        "dispatcher",
        "control store",
        "claim due deliveries (sending)",
    ),
    Arrow(
        "dispatcher/sending/request.py::send_signed",
        "_headers",
        "dispatcher",
        "dispatcher",
        "sign the stored bytes",
    ),
    Arrow(
        "dispatcher/sending/request.py::send_signed",
        "sender.send",
        "dispatcher",
        "receiver",
        "POST",
    ),
    Arrow(
        "dispatcher/sending/attempt.py::record",
        "reports.record",
        "dispatcher",
        "control store",
        "record the attempt (delivered or retrying)",
    ),
)
SEQUENCES: Final[Mapping[str, Sequence[Arrow]]] = {
    "way-of-an-event": EVENT,
    "slice-to-sealed": SLICE,
    "run-to-delivered": DELIVERED,
}


def sequence(arrows: Sequence[Arrow]) -> list[str]:
    """A mermaid sequence diagram. Raises `ValueError` where the code does not have the calls."""
    held(arrows)
    names = list(dict.fromkeys(name for one in arrows for name in (one.source, one.target)))
    return [
        "```mermaid",
        "sequenceDiagram",
        *(f"    participant {_id(name)} as {name}" for name in names),
        *(f"    {_id(one.source)}->>{_id(one.target)}: {one.text}" for one in arrows),
        "```",
    ]


def held(arrows: Iterable[Arrow]) -> None:
    """Raises `ValueError` unless each function makes the calls of its arrows, in their order."""
    reached: dict[str, int] = {}
    for arrow in arrows:
        calls = calls_of(arrow.code)
        try:
            reached[arrow.code] = calls.index(arrow.call, reached.get(arrow.code, -1) + 1)
        except ValueError:
            message = f"{arrow.code} does not call {arrow.call} there; correct docs/sequences.py"
            raise ValueError(message) from None


@cache
def calls_of(code: str) -> tuple[str, ...]:
    """What a function calls, in the order of the source. Raises `ValueError` if it is not there."""
    path, _, function = code.partition("::")
    found: ast.AST = ast.parse((ROOT / path).read_text("utf-8"))
    for name in function.split("."):
        found = _within(found, name, code)
    calls = sorted((one.lineno, one.col_offset, ast.unparse(one.func)) for one in _calls(found))
    return tuple(call for _, _, call in calls)


def _within(parent: ast.AST, name: str, code: str) -> ast.AST:
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, named) and node.name == name:
            return node
    message = f"{code} is not there; correct docs/sequences.py"
    raise ValueError(message)


def _calls(parent: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(parent) if isinstance(node, ast.Call))


def _id(name: str) -> str:
    return name.replace(" ", "_")
