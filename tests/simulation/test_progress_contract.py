"""The simulated progress keeps the contract of its port: the suite of tests/contract, over it."""

import pytest

from meterline.usage import ProgressStore
from tests.contract.control_store.test_layouts import (
    test_a_growth_begins_when_the_one_before_has_ended,
    test_a_log_that_grows_is_laid_out_so_from_then_on,
    test_new_partitions_are_complete_as_their_parents_were,
    test_nothing_is_complete_without_partitions_that_nobody_claimed,
    test_offsets_of_new_partitions_are_greater_than_all_that_is_counted,
    test_the_first_mark_of_a_partition_stands,
)
from tests.contract.control_store.test_progress_store import (
    test_a_flush_by_an_older_catalogue_says_nothing_of_a_newer_meter,
    test_a_late_seal_in_a_gap_is_found_behind_a_bound,
    test_a_log_keeps_the_number_of_its_first_registration,
    test_a_seal_of_before_has_no_digest_until_a_greater_one_brings_it,
    test_claims_merge_by_the_greatest,
    test_claims_of_an_older_catalogue_say_nothing_of_a_newer_meter,
    test_completeness_is_the_least_of_all_partitions,
    test_completions_name_the_greatest_claim_of_each_partition,
    test_flushed_ends_merge_by_the_greatest,
    test_logs_registered_at_once_have_numbers_of_their_own,
    test_marks_of_the_same_slices_at_once_leave_one_truth,
    test_nothing_is_complete_before_the_backfill_is_done,
    test_of_two_seals_with_one_name_the_greater_catalogue_wins,
    test_other_partitions_are_refused,
    test_the_append_time_before_an_offset_is_that_of_the_last_slice_below,
    test_the_backfill_list_names_older_seals_without_a_mark,
    test_the_last_seal_is_that_of_the_greatest_offset,
    test_what_is_filled_in_is_a_bound_that_a_late_seal_lowers,
    test_what_several_revisions_lack_is_told_together,
    test_whoever_settles_and_whoever_seals_at_once_agree,
    test_writers_at_once_lose_nothing,
)
from tests.contract.control_store.test_slice_differences import (
    test_a_difference_is_kept_with_what_differed,
    test_what_is_found_once_more_is_told_once_more,
    test_what_is_mended_is_told_no_more,
)
from tests.simulation.network import CalmNet
from tests.simulation.progress import ProgressState, SimulatedProgress

__all__ = [
    "test_a_difference_is_kept_with_what_differed",
    "test_a_flush_by_an_older_catalogue_says_nothing_of_a_newer_meter",
    "test_a_growth_begins_when_the_one_before_has_ended",
    "test_a_late_seal_in_a_gap_is_found_behind_a_bound",
    "test_a_log_keeps_the_number_of_its_first_registration",
    "test_a_log_that_grows_is_laid_out_so_from_then_on",
    "test_a_seal_of_before_has_no_digest_until_a_greater_one_brings_it",
    "test_claims_merge_by_the_greatest",
    "test_claims_of_an_older_catalogue_say_nothing_of_a_newer_meter",
    "test_completeness_is_the_least_of_all_partitions",
    "test_completions_name_the_greatest_claim_of_each_partition",
    "test_flushed_ends_merge_by_the_greatest",
    "test_logs_registered_at_once_have_numbers_of_their_own",
    "test_marks_of_the_same_slices_at_once_leave_one_truth",
    "test_new_partitions_are_complete_as_their_parents_were",
    "test_nothing_is_complete_before_the_backfill_is_done",
    "test_nothing_is_complete_without_partitions_that_nobody_claimed",
    "test_offsets_of_new_partitions_are_greater_than_all_that_is_counted",
    "test_of_two_seals_with_one_name_the_greater_catalogue_wins",
    "test_other_partitions_are_refused",
    "test_the_append_time_before_an_offset_is_that_of_the_last_slice_below",
    "test_the_backfill_list_names_older_seals_without_a_mark",
    "test_the_first_mark_of_a_partition_stands",
    "test_the_last_seal_is_that_of_the_greatest_offset",
    "test_what_is_filled_in_is_a_bound_that_a_late_seal_lowers",
    "test_what_is_found_once_more_is_told_once_more",
    "test_what_is_mended_is_told_no_more",
    "test_what_several_revisions_lack_is_told_together",
    "test_whoever_settles_and_whoever_seals_at_once_agree",
    "test_writers_at_once_lose_nothing",
]


@pytest.fixture
def store() -> ProgressStore:
    return SimulatedProgress(ProgressState(), CalmNet())
