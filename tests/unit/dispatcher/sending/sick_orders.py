"""Which of so many customers a receiver fails for: a share of them, in an order."""

from typing import Final

ORDERS: Final = ("first", "alternating", "clustered")


def sick_ones(share: float, order: str, count: int) -> frozenset[int]:
    """Their numbers, of 0 to `count` - 1, so many that they are that share."""
    sick = round(share * count)
    if order == "first":
        return frozenset(range(sick))
    if order == "alternating":
        return frozenset(round(place * count / sick) for place in range(sick))
    assert order == "clustered", order
    # by fifties, most of the sick ones side by side
    by_cluster = sorted(range(count), key=lambda place: (place // 50 % 10, place))
    return frozenset(by_cluster[:sick])
