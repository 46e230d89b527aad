"""Values of sending: what is due, what is sent, what came back."""

from dataclasses import dataclass

from msgspec import Struct

from meterline.delivery.delivery import Attempt, AttemptOutcome, DeliveryMove
from meterline.delivery.endpoint.health import UNOBSERVED, EndpointObservation, Health

Address = tuple[str, str]  # namespace and URL: what fares well or badly as one


@dataclass(frozen=True, slots=True)
class Due:
    """A report with deliveries that may be sent now, and the endpoint that they go to.

    `first`: some of them were never tried, or not since their replay; `others`: some were, or their
    dispatcher died.
    """

    report_id: str
    endpoint: str
    namespace: str = "default"
    due_at_ms: int = 0  # of the one that waits the longest
    first: bool = True
    others: bool = True
    health: Health = UNOBSERVED

    @property
    def address(self) -> Address:
        """Where they go."""
        return self.namespace, self.endpoint


@dataclass(frozen=True, slots=True)
class SendGrant:
    """How many deliveries of a report may be claimed now; `probe`: of an endpoint that is out;
    `others`: also such as were tried before; `retries`: so many of these go before first tries.
    """

    report_id: str
    count: int
    probe: bool = False
    others: bool = True
    retries: int = 0


class ClaimedDelivery(Struct, frozen=True, gc=False):
    """A claimed delivery with all that its sending needs. `attempt` is its number; it is already
    recorded. `attempts_before` are those before the last replay, which begins its retries anew;
    `patient_since_ms` is when it was made, or last replayed.

    The secrets that sign: the current one, then those that a rotation has not ended yet.
    `due_at_ms` is since when it was due; `probe`: it is the one that an endpoint that is out gets.
    """

    delivery_id: str
    run_id: str
    report_id: str
    namespace: str
    attempt: int
    attempts_before: int
    patient_since_ms: int
    endpoint: str
    signing_secrets_sealed: tuple[bytes, ...]
    user_info_sealed: bytes | None
    body: bytes
    headers_sealed: bytes | None = None
    due_at_ms: int = 0
    probe: bool = False

    @property
    def address(self) -> Address:
        """Where it goes."""
        return self.namespace, self.endpoint


class Answer(Struct, frozen=True, gc=False):
    """What came of one POST. `status` is None where none came back; `reason` says so in words."""

    outcome: AttemptOutcome
    duration_ms: int
    status: int | None = None
    reason: str = ""
    body: bytes = b""  # its start, bounded
    retry_after: str | None = None  # the header as sent
    of_receiver: bool = True  # False: a fault on the way, that says nothing of the receiver


class AttemptEnd(Struct, frozen=True, gc=False):
    """An attempt as it ended, what that does to its delivery, and what it says of the endpoint."""

    attempt: Attempt
    move: DeliveryMove
    observed: EndpointObservation | None = None
