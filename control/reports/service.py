"""What the operations of reports stand on, and the things that their paths name."""

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control.kept import check_counted
from control.stores import Stores
from meterline import limits
from meterline.delivery import (
    NO_HEADERS,
    Endpoint,
    PullStore,
    ReplayStore,
    SealedHeaders,
    SecretBox,
    Sign,
    headers_text,
)
from meterline.problem import Problem, ProblemType, not_found
from meterline.report import (
    CorrectionStore,
    Report,
    ReportStatusStore,
    ReportStore,
    ReportTester,
    ReportTestStore,
    Run,
    StartTerms,
)

# A person has to put the key back: longer than clients wait by themselves (two minutes), so that
# theirs tell their caller at once.
KEY_BACK_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class ReportService:
    """`wake` tells a dispatcher of this process that there is work."""

    stores: Stores
    reports: ReportStore
    box: SecretBox
    wake: Callable[[], None]
    corrections: CorrectionStore
    start: StartTerms
    statuses: ReportStatusStore
    tester: ReportTester
    tests: ReportTestStore
    replays: ReplayStore
    pulls: PullStore
    sign: Sign

    @property
    def now_ms(self) -> int:
        """The present time."""
        return self.stores.now_ms

    async def report(self, namespace: str, id_or_slug: str) -> Report:
        """A live report of a namespace. Raises `Problem` (not found)."""
        report = await self.reports.report(namespace, id_or_slug)
        if report is None:
            raise not_found("report", id_or_slug)
        return report

    async def report_id(self, namespace: str, id_or_slug: str) -> str:
        """The id of a report; what is no report that lives may be the id of a deleted one."""
        report = await self.reports.report(namespace, id_or_slug)
        return id_or_slug.upper() if report is None else report.id

    async def run(self, report: Report, run_id: str) -> Run:
        """A run of a report. Raises `Problem` (not found)."""
        run = await self.reports.run(report.id, run_id)
        if run is None:
            raise not_found("run", run_id)
        return run

    async def check_counted(self, report: Report, from_ms: int, to_ms: int) -> None:
        """Raise `Problem` where the meter could not count all events of a window, because they were
        not kept any more when it was made.
        """
        meter = await self.stores.meter(report.namespace, report.meter_id)
        await check_counted(self.stores, meter, from_ms, to_ms)

    async def meter_key(self, report: Report) -> str:
        """The key of a report's meter, which cannot be deleted before it."""
        return (await self.stores.meter(report.namespace, report.meter_id)).key

    async def meter_keys(self, namespace: str) -> dict[str, str]:
        """The keys of all meters of a namespace, by id."""
        listed = await self.stores.catalogue.listed_meters(namespace)
        return {meter.id: meter.key for meter in listed}

    def opened(self, sealed: bytes) -> str:
        """A signing secret. Raises `Problem` (unavailable) where this installation has not the key
        that it was sealed under.
        """
        try:
            return self.box.open(sealed)
        except ValueError as error:
            detail = (
                "The signing secret of this report cannot be decrypted, because `secret_key` has"
                " changed. Restore the old key, or rotate the secret with `overlap_seconds` 0."
            )
            raise Problem(ProblemType.UNAVAILABLE, detail, retry_after_s=KEY_BACK_S) from error

    def sealed_user_info(self, endpoint: Endpoint) -> bytes | None:
        """The user information of an endpoint, as it is kept."""
        return self.box.seal(endpoint.user_info) if endpoint.user_info else None

    def sealed_headers(self, headers: Mapping[str, str]) -> SealedHeaders:
        """The headers of a report, as they are kept."""
        if not headers:
            return NO_HEADERS
        return SealedHeaders(tuple(sorted(headers)), self.box.seal(headers_text(headers)))


def new_signing_secret() -> str:
    """A secret in the form that the libraries of receivers take."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(limits.SIGNING_SECRET_BYTES)).decode()}"
