"""How many records of a partition are not counted yet (pure)."""


def uncounted(begin: int, end: int, counted: int) -> int:
    """Records of a partition that are counted up to an offset and not beyond. What the log dropped
    is none of them.
    """
    return max(0, end - max(begin, counted))
