"""What a restore says of the audit in its end."""

from meterline.audit import AuditStep, Finding
from meterline.limits import ARCHIVE_FINDINGS_MAX
from meterline.runtime.archive.restoring import Audited


def finding(number: int) -> Finding:
    return Finding("tallies", f"1.0.{number}", "sum", "1", "2")


def test_the_first_differences_are_kept_and_all_are_counted() -> None:
    found = Audited()
    for first in range(0, 60, 15):
        findings = [finding(number) for number in range(first, first + 15)]
        found.add(AuditStep(findings=findings, omitted=5, slices=10, erased=3))
    assert found.findings == [finding(number) for number in range(ARCHIVE_FINDINGS_MAX)]
    assert (found.differences, found.slices) == (80, 40)
    assert {what: count for what, count in found.unchecked.items() if count} == {
        "events of erased subjects": 12
    }
