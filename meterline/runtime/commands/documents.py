"""The documents of the API: `python -m meterline.runtime.commands.documents FOLDER` writes them."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from control.openapi.document import About, Document, Webhook, document
from control.openapi.published import as_json
from control.openapi.report_message import EXAMPLE, WEBHOOK, ReportMessageShown
from control.routes import bound_v1, bound_v3, declared_api
from ingest.gateway import Gateway
from meterline.http.mounting import OLD_PREFIXES, V3_PREFIXES
from meterline.http.operation import Bound
from meterline.report import MESSAGE_TYPE

_TAGS: Final = {
    "Events": "Send usage events, and list them with their verdicts.",
    "Refusals": "Events that were received but do not count. Fix and redrive, or dismiss them.",
    "Meters": "Define which events are counted and how. Query usage.",
    "Subjects": "Describe the subjects that usage belongs to, such as customers.",
    "Reports": "Scheduled usage reports, delivered as signed webhooks.",
    "Deliveries": "What reports sent, with every attempt. Replay or pull deliveries.",
    "API keys": "Create, change, rotate and revoke API keys.",
    "Sessions": "People who sign in to the console with a key.",
    "Changes": "The record of who changed what, and when.",
    "Accounts": "The number of events per verdict, and audits of stored data.",
    "Status": "The progress of counting.",
}
_ABOUT: Final = """Meterline counts usage events exactly. It sends usage reports as signed webhooks.

Ids are ULIDs. A path that takes an id also takes a key or slug. Values are exact decimals in
strings. Errors are problems (RFC 9457): branch on `status` and `type`. After 429 and 503 wait as
long as `Retry-After` says. Retry after other 5xx and network errors with exponential backoff.

`/api/v3/openmeter/...` is another name of `/api/v3/metering/...`."""
_ABOUT_OLD: Final = """API v1 and v2, for existing integrations. Use v3 for new ones.

Values are JSON numbers with all their digits. Errors have the members of RFC 9457 and
`extensions.validationErrors`."""


def v3(bound: Iterable[Bound]) -> Document:
    """The document of API v3."""
    about = About("Meterline API", version("meterline"), V3_PREFIXES[0], _ABOUT, _TAGS)
    hook = Webhook(ReportMessageShown, WEBHOOK, EXAMPLE)
    return document(about, (one.operation for one in bound), {MESSAGE_TYPE: hook})


def v1(bound: Iterable[Bound]) -> Document:
    """The document of API v1 and what there is of v2."""
    about = About(
        "Meterline API v1", version("meterline"), OLD_PREFIXES[0], _ABOUT_OLD, _TAGS, legacy=True
    )
    return document(about, (one.operation for one in bound))


def declared_v3() -> list[Bound]:
    """Every operation of v3; bound to nothing that could answer."""
    nothing: Any = None
    gateway = Gateway(nothing, nothing, nothing, nothing)
    return gateway.v3() + bound_v3(declared_api())


def declared_v1() -> list[Bound]:
    """Every operation of v1 and v2; bound to nothing that could answer."""
    nothing: Any = None
    gateway = Gateway(nothing, nothing, nothing, nothing)
    return gateway.v1() + bound_v1(declared_api())


def write(folder: Path) -> None:
    """Write `v3.json` and `v1.json` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "v3.json").write_bytes(as_json(v3(declared_v3())))
    (folder / "v1.json").write_bytes(as_json(v1(declared_v1())))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(folder: Path) -> None:
    """Write v3.json and v1.json, the OpenAPI documents of the API, into FOLDER."""
    write(folder)


if __name__ == "__main__":
    main()
