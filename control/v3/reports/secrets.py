"""Signing secrets of reports in API v3 (contract section 5, rule 5): shown, and rotated with an
overlap in which deliveries are signed by both.
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfReports, Operation
from control.reports.service import new_signing_secret
from control.shapes.secret import secret_answer, secret_response
from meterline.access import Scope
from meterline.http.operation import Call, json_body
from meterline.http.shapes import Closed, InstantShown, NoParameters
from meterline.limits import SIGNING_OVERLAP_S, SIGNING_OVERLAP_S_MAX
from meterline.problem import ProblemType
from meterline.report import Report
from meterline.window import rfc3339

SecretText = Annotated[str, Field(pattern=r"^whsec_[A-Za-z0-9+/]+=*$")]


class SecretRotationBody(Closed):
    """How the secret is replaced."""

    overlap_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=SIGNING_OVERLAP_S_MAX,
            description="How long earlier secrets also sign. 0 ends them at once.",
        ),
    ] = SIGNING_OVERLAP_S


class PreviousSecretShown(TypedDict):
    """A secret from before that signs as well."""

    signing_secret: SecretText
    signs_until: InstantShown


class SigningSecretShown(TypedDict):
    """The secrets that sign the deliveries of a report."""

    signing_secret: Annotated[SecretText, Field(description="The current secret.")]
    previous: Annotated[
        list[PreviousSecretShown], Field(description="Those that sign as well, the newest first.")
    ]


_EXAMPLE: Final[SigningSecretShown] = {
    "signing_secret": "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSByZXBvcnQ=",
    "previous": [
        {
            "signing_secret": "whsec_dGhlIG9uZSB0aGF0IHdhcyBiZWZvcmUgaXQ=",
            "signs_until": "2026-02-01T10:00:00Z",
        }
    ],
}


class V3ReportSecrets(OfReports, tag="Reports"):
    """Handlers of the secrets of one report."""

    @Operation(
        id="get-report-secret",
        route="GET /reports/{reportId}/secret",
        summary="Get the signing secret of a report",
        scope=Scope.SECRETS_READ,
        answer=secret_answer(
            200, "The secrets that sign now.", SigningSecretShown, {**_EXAMPLE, "previous": []}
        ),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The secrets that sign now."""
        service, report = self._service, await self._found(call)
        signing = await self._signing(report)
        await service.reports.tell_secret_shown(report, service.now_ms, author=call.author)
        return secret_response(signing)

    @Operation(
        id="rotate-report-secret",
        route="POST /reports/{reportId}/secret/rotate",
        summary="Rotate the signing secret of a report",
        description="Create a new secret. Deliveries are signed with it, and until the overlap "
        "ends also with the earlier ones. A receiver can switch at any moment in between.",
        scope=Scope.SECRETS_READ,
        body=json_body(SecretRotationBody, {"overlap_seconds": 86_400}),
        answer=secret_answer(200, "The secrets that sign now.", SigningSecretShown, _EXAMPLE),
        problems=(ProblemType.CONFLICT,),
    )
    async def rotate(self, call: Call[NoParameters, SecretRotationBody]) -> web.Response:
        """The secrets that sign now, the new one first; 409 where too many overlap."""
        service = self._service
        report = await self._found(call)
        sealed = service.box.seal(new_signing_secret())
        overlap_ms = call.body.overlap_seconds * 1_000
        if overlap_ms:  # one that cannot sign would hold up all deliveries until its overlap ends
            await self._signing(report)
        await service.reports.rotate_secret(
            report.id, sealed, overlap_ms, service.now_ms, author=call.author
        )
        return secret_response(await self._signing(await self._found(call)))

    async def _signing(self, report: Report) -> SigningSecretShown:
        """Those that sign now. Raises `Problem` (unavailable) where one cannot be opened."""
        service = self._service
        return {
            "signing_secret": service.opened(report.signing_secret_sealed),
            "previous": [
                {
                    "signing_secret": service.opened(it.sealed),
                    "signs_until": rfc3339(it.signs_until_ms),
                }
                for it in await service.reports.retired_secrets(report.id, service.now_ms)
            ],
        }
