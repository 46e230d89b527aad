"""The simulated log keeps the contract of its port: the suite of tests/contract, over it."""

import pytest

from meterline.backends.clock import SystemClock
from meterline.event import Log
from tests.contract.log.test_log import (
    PARTITIONS,
    Place,
    test_a_partition_that_is_not_there_is_an_error,
    test_a_record_has_one_digest_however_often_the_log_is_opened,
    test_an_empty_log_begins_at_its_end,
    test_another_number_of_partitions_is_refused,
    test_concurrent_appends_are_all_there_once,
    test_everything_is_there_after_closing_and_opening,
    test_large_records_pass,
    test_partitions_are_read_in_turn,
    test_reading_begins_where_it_is_told_and_keeps_to_its_bound,
    test_the_end_is_above_every_append_that_returned,
    test_the_kind_of_a_record_is_kept,
    test_trimming_twice_or_beyond_the_end_harms_nothing,
    test_what_was_appended_is_read_in_order,
)
from tests.simulation.log import LogState, opened
from tests.simulation.network import CalmNet

__all__ = [
    "test_a_partition_that_is_not_there_is_an_error",
    "test_a_record_has_one_digest_however_often_the_log_is_opened",
    "test_an_empty_log_begins_at_its_end",
    "test_another_number_of_partitions_is_refused",
    "test_concurrent_appends_are_all_there_once",
    "test_everything_is_there_after_closing_and_opening",
    "test_large_records_pass",
    "test_partitions_are_read_in_turn",
    "test_reading_begins_where_it_is_told_and_keeps_to_its_bound",
    "test_the_end_is_above_every_append_that_returned",
    "test_the_kind_of_a_record_is_kept",
    "test_trimming_twice_or_beyond_the_end_harms_nothing",
    "test_what_was_appended_is_read_in_order",
]


@pytest.fixture
def place() -> Place:
    state = LogState("simulated", PARTITIONS, SystemClock())

    async def open_with(partitions: int) -> Log:
        return opened(state, partitions, CalmNet())

    return Place(open_with)


@pytest.fixture
async def log(place: Place) -> Log:
    return await place.open()
