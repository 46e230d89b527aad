"""Ids, states and digests of runs and deliveries, in every version of the API alike."""

from typing import Annotated, Final, Literal

from pydantic import Field

from meterline.http.shapes import Instant, Parameters
from meterline.report import Manifest, Run

RUN_PATTERN: Final = "run_[a-z2-7]{32}"


DELIVERY_PATTERN: Final = "dlv_[a-z2-7]{32}"


RunId = Annotated[
    str, Field(pattern=f"^{RUN_PATTERN}$", examples=["run_cf6inwlmjqelmmezy2kklvx5tgtoar6l"])
]


DeliveryId = Annotated[
    str, Field(pattern=f"^{DELIVERY_PATTERN}$", examples=["dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh"])
]


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


DeliveryStateName = Literal["pending", "sending", "retrying", "delivered", "failed", "cancelled"]


RunStateName = Literal[
    "scheduled",
    "waiting",
    "materializing",
    "delivering",
    "succeeded",
    "partly_failed",
    "failed",
    "skipped",
    "recorded",
]
OutcomeName = Literal["sending", "delivered", "refused", "unreached", "forbidden", "lost"]


class WindowStartFilter(Parameters):
    """A condition on the start of the window."""

    gte: Annotated[Instant | None, Field(description="It begins then or later.")] = None


class WindowEndFilter(Parameters):
    """A condition on the end of the window."""

    lte: Annotated[Instant | None, Field(description="It ends then or earlier.")] = None


def corrections_of(run: Run) -> int | None:
    """How many entries a revision corrects; None for other runs."""
    if run.manifest is None or run.manifest.corrections_digest is None:
        return None
    return run.manifest.corrections


def sequence_of(manifest: Manifest) -> tuple[int | None, int | None]:
    """The first and the last number of a run's deliveries; None where it has none."""
    if not manifest.deliveries:
        return None, None
    return manifest.sequence_first, manifest.sequence_first + manifest.deliveries - 1
