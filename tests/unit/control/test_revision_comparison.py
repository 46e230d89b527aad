from control.revision_comparison import compared
from meterline.usage import UsageRow


def row(subject: str, value: int, count: int = 1, rejected: int = 0) -> UsageRow:
    return UsageRow(0, 1, subject, (), value, count, rejected)


def test_subjects_of_both_are_compared_in_order() -> None:
    found = compared([row("b", 5), row("a", 1)], [row("c", 2), row("b", 3)])
    assert [(one.subject, one.difference, one.differs) for one in found] == [
        ("a", -1, True),
        ("b", -2, True),
        ("c", 2, True),
    ]


def test_the_same_value_of_other_events_differs() -> None:
    (one,) = compared([row("a", 1, 1)], [row("a", 1, 2)])
    assert (one.difference, one.differs) == (0, True)
    (one,) = compared([row("a", 1, 1)], [row("a", 1, 1, 1)])
    assert one.differs
    (one,) = compared([row("a", 1, 1, 1)], [row("a", 1, 1, 1)])
    assert not one.differs


def test_nothing_counted_is_not_zero_and_subtracts_as_zero() -> None:
    (one,) = compared([row("a", 0, 1)], [row("a", 0, 0)])
    assert (one.difference, one.differs) == (0, True)
    (one,) = compared([], [row("a", 0, 0, 2)])
    assert (one.difference, one.differs) == (0, True)
