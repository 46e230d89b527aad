"""The simulated usage store keeps what the simulation asks of its port: from the suite of
tests/contract all but queries by zone, filter and parts of a minute, and errors of a server.
"""

import pytest

from meterline.usage import UsageStore
from tests.contract.usage.test_store import (
    test_a_flush_may_span_more_years_than_an_insert,
    test_count_back_notices_a_missing_and_a_superseded_row,
    test_events_and_seen_are_read_back_in_order,
    test_every_aggregation,
    test_nothing_is_there_at_first,
    test_rejected_values_come_in_pages,
    test_repeated_and_late_writes_change_nothing,
    test_sums_do_not_wrap,
    test_what_is_written_is_counted_back_to_the_bit,
)
from tests.simulation.network import CalmNet
from tests.simulation.usage import SimulatedUsage, UsageState

__all__ = [
    "test_a_flush_may_span_more_years_than_an_insert",
    "test_count_back_notices_a_missing_and_a_superseded_row",
    "test_events_and_seen_are_read_back_in_order",
    "test_every_aggregation",
    "test_nothing_is_there_at_first",
    "test_rejected_values_come_in_pages",
    "test_repeated_and_late_writes_change_nothing",
    "test_sums_do_not_wrap",
    "test_what_is_written_is_counted_back_to_the_bit",
]


@pytest.fixture
def store() -> UsageStore:
    return SimulatedUsage(UsageState(), CalmNet())
