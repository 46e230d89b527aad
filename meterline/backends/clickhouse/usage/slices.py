"""Slices of partitions as conditions by which the key (log, partition, slice) finds them."""

from collections.abc import Mapping


def slices_from(first: Mapping[int, int]) -> str:
    """Slices from those named on, and all of other partitions."""
    if not first:
        return "true"
    parts = [f"(partition = {number} AND slice >= {slice_})" for number, slice_ in first.items()]
    others = ", ".join(map(str, first))
    return " OR ".join([*parts, f"partition NOT IN ({others})"])


def slices_below(end: Mapping[int, int]) -> str:
    """Slices below those named, and none of other partitions."""
    parts = [f"(partition = {number} AND slice < {slice_})" for number, slice_ in end.items()]
    return " OR ".join(parts) or "false"
