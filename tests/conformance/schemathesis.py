"""Schemathesis over a document that a running product serves, with things there to ask for.

It is run as its command line, in a process of its own: it is at its best there, and its warnings
and hooks stay out of this one.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.installation import Caller
from tests.conformance.scale import EXAMPLES, EXAMPLES_CI, SEED
from tests.conformance.worlds import METER_BODY, V3
from tests.openapi import published

DOCUMENTS: Final = {"v3": "/api/openapi.json", "v1": "/api/v1/openapi.json"}
SHARES: Final = {"v3": 1, "v1": 5}
"""By what the examples of an operation are divided: v1 is there for what was there before. Each
bound of its parameters and bodies is tried where more is asked for than CI's share.
"""
PROGRAM: Final = Path(sys.executable).with_name("schemathesis")
HOOKS: Final = Path(__file__).with_name("schemathesis_hooks.py")
KEY_VARIABLE: Final = "METERLINE_TEST_KEY"
USED: Final = 0.8
"""Share of the cases of an operation whose names are those of things that are there."""
SPARE: Final = 24
"""Things of each kind to be deleted, or to lose their key."""
# Its defaults, and 413: what is refused for its size is refused.
REFUSALS: Final = ["400", "401", "403", "404", "405", "406", "409", "413", "429"]
# 400 for what fits the schema is judged by the hooks: they know what no schema can say.
# 304 is no refusal: who asks has the answer already.
ACCEPTED: Final = ["2xx", "304", *(status for status in REFUSALS if status != "400")]
ENDING: Final = {
    "meterId": ("delete-meter",),
    "meterIdOrSlug": ("deleteMeter",),
    "reportId": ("delete-report",),
    "reportIdOrSlug": ("deleteReport",),
    "subjectIdOrKey": ("deleteSubject",),
    "subjectId": ("delete-subject",),
    "apiKeyId": ("revoke-api-key", "update-api-key", "rotate-api-key"),
}
"""By the name in the path: the operations that get something to spare."""
REFERRING: Final = {
    "body.meter_id_or_key": "meterId",
    "body.meterIdOrSlug": "meterIdOrSlug",
}
"""Members of bodies that name something."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is sent to whom."""

    url: str
    version: str
    key: str
    names: Mapping[str, Sequence[str]]  # of things that stay
    spare: Mapping[str, Sequence[str]]  # of things that may go

    @property
    def operations(self) -> Collection[str]:
        """Ids of those in its document."""
        v3, v1 = published()
        return (v3 if self.version == "v3" else v1).operations

    def settings(self) -> str:
        """Its settings file."""
        lines = [
            f'headers = {{ Authorization = "Bearer ${{{KEY_VARIABLE}}}" }}',
            "continue-on-failure = true",
            f"hooks = {json.dumps(str(HOOKS))}",
            "[generation]",
            f"max-examples = {max(1, EXAMPLES // SHARES[self.version])}",
            'database = "none"',
            "allow-x00 = true",
            "[phases]",
            "stateful.enabled = false",
            # a third as long again as the rest: for `make conformance`
            f"coverage.enabled = {str(EXAMPLES > EXAMPLES_CI).lower()}",
            *(f"{phase}.extra-data-sources.responses = false" for phase in PHASES),
            "[checks]",
            f"negative_data_rejection.expected-statuses = {json.dumps(REFUSALS)}",
            f"positive_data_acceptance.expected-statuses = {json.dumps(ACCEPTED)}",
            "use_after_free.enabled = false",
            "ensure_resource_availability.enabled = false",
        ]
        return "\n".join([*lines, *self._dictionaries(), ""])

    def _dictionaries(self) -> Iterator[str]:
        for kind, values in (
            *self.names.items(),
            *((f"{k}Spare", v) for k, v in self.spare.items()),
        ):
            yield f"[dictionaries.{kind}]"
            yield f"values = {json.dumps(values)}"
        yield "[parameters]"
        for name in self.names:
            yield f'"path.{name}" = {{ dictionary = "{name}", probability = {USED} }}'
        for member, name in REFERRING.items():
            yield f'"{member}" = {{ dictionary = "{name}", probability = {USED} }}'
        for name, operations in ENDING.items():
            for operation in operations:
                if operation not in self.operations:
                    continue
                bound = f'{{ dictionary = "{name}Spare", probability = {USED} }}'
                yield "[[operations]]"
                yield f'include-operation-id = "{operation}"'
                yield f'parameters = {{ "path.{name}" = {bound} }}'


PHASES: Final = ("examples", "coverage", "fuzzing")


def run(campaign: Campaign, folder: Path, told: Callable[[str], None]) -> tuple[int, str]:
    """Exit code and words of a campaign; words about its progress are told as they come."""
    folder.mkdir()
    settings = folder / "schemathesis.toml"
    settings.write_text(campaign.settings())
    command = [str(PROGRAM), "--config-file", str(settings), "run", "--no-color"]
    command += ["--url", campaign.url, "--seed", str(SEED)]
    command += [campaign.url + DOCUMENTS[campaign.version]]
    words = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, KEY_VARIABLE: campaign.key, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            words.append(line)
            if line.startswith((" ✅", " ❌", "     ✅", "     ❌")):
                told(line.rstrip())
    return process.returncode, "".join(words)


def generated(words: str) -> int:
    """How many requests a campaign says that it made."""
    found = re.search(r"(\d+) generated", words)
    return 0 if found is None else int(found[1])


def spare_of(caller: Caller) -> dict[str, list[str]]:
    """Things of a namespace that nobody misses."""
    numbers = range(SPARE)
    meters = [
        caller.wanted("POST", f"{V3}/meters", 201, METER_BODY | {"key": f"spare_{number}"})["id"]
        for number in numbers
    ]
    report = {
        "meter_id_or_key": meters[0],
        "type": "webhook",
        "schedule": {"interval": "1d"},
        "endpoint": {"url": "https://receiver.example.com/usage"},
    }
    reports = [
        caller.wanted("POST", f"{V3}/reports", 201, report | {"slug": f"spare-{number}"})["id"]
        for number in numbers
    ]
    subjects = [{"key": f"spare-{number}"} for number in numbers]
    made = caller.wanted("POST", "/api/v1/subjects", 200, subjects)
    key = {"name": "spare", "scopes": ["status:read"]}
    keys = [caller.wanted("POST", f"{V3}/api-keys", 201, key)["id"] for _ in numbers]
    return {
        "meterId": meters[1:],
        "meterIdOrSlug": meters[1:],
        "reportId": reports,
        "reportIdOrSlug": reports,
        "subjectIdOrKey": [one["id"] for one in made],
        "subjectId": [one["id"] for one in made],
        "apiKeyId": keys,
    }
