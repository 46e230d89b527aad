"""What every ReportStore promises of signing secrets and their rotation."""

from dataclasses import replace

import pytest

from meterline.delivery import SendGrant
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportStore, RetiredSecret
from tests.contract.reports.conftest import NOW, SECRET, delivering

HOUR_MS = 3_600_000


async def signing(store: ReportStore, report: Report, now_ms: int) -> tuple[bytes, ...]:
    """The secrets that a delivery claimed at an instant is signed with."""
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], now_ms, now_ms)
    return claimed.signing_secrets_sealed


async def test_the_newest_sealed_secrets_are_of_live_reports(
    store: ReportStore, report: Report
) -> None:
    assert await store.sealed_secrets(9) == [SECRET]
    newer = replace(
        report, id="02R", slug="newer", signing_secret_sealed=b"newer", created_at_ms=NOW + 1
    )
    await store.create_report(newer, NOW)
    assert await store.sealed_secrets(9) == [b"newer", SECRET]
    assert await store.sealed_secrets(1) == [b"newer"]
    await store.delete_report("02R", NOW)
    assert await store.sealed_secrets(9) == [SECRET]


async def test_both_secrets_sign_until_the_overlap_ends(store: ReportStore, report: Report) -> None:
    await delivering(store, report, "a")
    await store.rotate_secret(report.id, b"two", HOUR_MS, NOW)
    end_ms = NOW + HOUR_MS
    assert await store.retired_secrets(report.id, NOW) == [RetiredSecret(SECRET, end_ms)]
    found = await store.report("default", report.id)
    assert found is not None
    assert (found.signing_secret_sealed, found.updated_at_ms) == (b"two", report.updated_at_ms)
    assert await signing(store, report, NOW) == (b"two", SECRET)
    assert await signing(store, report, end_ms - 1) == (b"two", SECRET)
    assert await signing(store, report, end_ms) == (b"two",)
    assert await store.retired_secrets(report.id, end_ms) == []


async def test_rotating_again_leaves_all_that_overlap_and_the_newest_signs_first(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a")
    await store.rotate_secret(report.id, b"two", HOUR_MS, NOW)
    for _ in range(2):  # repeating changes nothing
        await store.rotate_secret(report.id, b"three", 2 * HOUR_MS, NOW + 1)
    assert await signing(store, report, NOW + 2) == (b"three", b"two", SECRET)
    # a shorter overlap ends the older ones, too
    await store.rotate_secret(report.id, b"four", 1_000, NOW + 3)
    assert await store.retired_secrets(report.id, NOW + 3) == [
        RetiredSecret(sealed, NOW + 1_003) for sealed in (b"three", b"two", SECRET)
    ]
    await store.rotate_secret(report.id, b"five", 0, NOW + 4)
    assert await signing(store, report, NOW + 4) == (b"five",)


async def test_only_so_many_sign_at_once(store: ReportStore, report: Report) -> None:
    for number in range(5):
        await store.rotate_secret(report.id, b"%d" % number, HOUR_MS, NOW)
    with pytest.raises(Problem, match="5 earlier secrets") as caught:
        await store.rotate_secret(report.id, b"more", HOUR_MS, NOW)
    assert caught.value.type is ProblemType.CONFLICT
    assert len(await store.retired_secrets(report.id, NOW)) == 5
    await store.rotate_secret(report.id, b"more", HOUR_MS, NOW + HOUR_MS)
    assert await store.retired_secrets(report.id, NOW + HOUR_MS) == [
        RetiredSecret(b"4", NOW + 2 * HOUR_MS)
    ]
