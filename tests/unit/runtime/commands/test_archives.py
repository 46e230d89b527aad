"""What `meterline restore` says in the end: what differs, and what to do next."""

import pytest

from meterline.audit import AuditStep, Finding
from meterline.runtime.archive.restoring import Audited, Restored
from meterline.runtime.commands.archives import report_restored
from tests.unit.runtime.archive.test_manifest import MANIFEST

AS_THEN = (
    "Keys that were revoked after 2026-01-31T00:00:00.000Z are valid again, and secrets are as"
    " they were then. Revoke and rotate them again. Pause or delete again the reports that were"
    " paused or deleted since, and erase again the subjects that were erased."
)


def restored(*steps: AuditStep) -> Restored:
    audited = Audited()
    for step in steps:
        audited.add(step)
    return Restored(MANIFEST, "log", 2, 3, audited if steps else None)


def test_a_clean_restore_names_the_next_steps(capsys: pytest.CaptureFixture[str]) -> None:
    report_restored(restored(AuditStep(slices=1_200, not_kept=7)))
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.splitlines() == [
        "Not compared: 7 slices whose events or minutes are not kept.",
        "Clean: no differences in 1,200 slices.",
        "Restored. Next: start the processes.",
        "Set log_accepted to log first: this is not the first log.",
        "Send again what was sent after 2026-01-31T00:00:00.000Z: nothing counts twice.",
        "Then resume the 3 reports that were paused.",
        AS_THEN,
    ]


def test_differences_are_counted_and_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [Finding("tallies", f"1.0.{number}", "sum", "1", "2") for number in range(25)]
    with pytest.raises(SystemExit) as ended:
        report_restored(restored(AuditStep(findings=findings, omitted=4)))
    assert ended.value.code == 1
    answer = capsys.readouterr()
    assert len(answer.out.splitlines()) == 20
    assert answer.out.startswith("tallies 1.0.0: sum: expected 1; found 2\n")
    assert answer.err.startswith("29 differences, 9 of them are not listed. Restore an older")


def test_what_was_not_audited_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    report_restored(restored())
    assert capsys.readouterr().err.startswith("Nothing was audited. Run `meterline audit` once")
