"""What a pull of deliveries asks of the control store, and of whatever signs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meterline.run import Delivery


@dataclass(frozen=True, slots=True)
class PullPlace:
    """The place of a delivery in a pull: by window, the one that ends first before the others, then
    by revision, then by number.
    """

    to_ms: int
    from_ms: int
    revision: int
    number: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A delivery with its bytes (None where they are not kept any more), the id of the delivery
    that replaces its figures, and in words what went wrong with its last attempt.
    """

    delivery: Delivery
    body: bytes | None
    superseded_by: str | None
    reason: str

    @property
    def place(self) -> PullPlace:
        """Its place."""
        one = self.delivery
        return PullPlace(one.to_ms, one.from_ms, one.revision, one.number)


class PullStore(Protocol):
    """Deliveries by window, for whoever fetches rather than receives them."""

    async def pulled(
        self,
        report_id: str,
        window: tuple[int | None, int | None],
        limit: int,
        bytes_max: int,
        after: PullPlace | None = None,
    ) -> tuple[list[Pulled], bool]:
        """Deliveries of a report whose windows lie within one that may be open, by place; and
        whether more follow.

        At most `limit`, and no more than `bytes_max` bytes of bodies but for the first.
        """
        ...


class Sign(Protocol):
    """Proves a body at an instant, see `dispatcher.signing`."""

    def __call__(
        self, delivery_id: str, secrets: Sequence[str], body: bytes, now_ms: int
    ) -> Mapping[str, str]:
        """The headers that prove it, of both families."""
        ...
