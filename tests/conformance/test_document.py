"""Both documents against the running product: thousands of requests that are right, nearly right
and wrong; each is answered as the document says, and none with a 5xx.
"""

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from tests.conformance import schemathesis
from tests.conformance.installation import Installation
from tests.conformance.scale import EXAMPLES
from tests.conformance.schemathesis import DOCUMENTS

CASES_MIN = {"v3": 30 * EXAMPLES, "v1": 20 * EXAMPLES // 5}
START_S = 300.0
EXAMPLE_S = 4.0  # one of each of the operations, on a machine that does much else


@pytest.mark.timeout(START_S + EXAMPLES * EXAMPLE_S)
@pytest.mark.parametrize("version", DOCUMENTS)
def test_every_answer_is_a_documented_one(
    campaigns: Mapping[str, Future[tuple[int, str]]], version: str
) -> None:
    code, words = campaigns[version].result()
    assert code == 0, f"schemathesis found something:\n{words}"
    generated = schemathesis.generated(words)
    assert generated >= CASES_MIN[version]


def test_the_product_has_borne_it(
    campaigns: Mapping[str, Future[tuple[int, str]]], installation: Installation
) -> None:
    for campaign in campaigns.values():
        campaign.result()
    assert installation.caller().ask("GET", "/readyz").status == 200
    said = installation.process.log_path.read_text(errors="replace")
    assert "action=failed" not in said
    assert "Traceback" not in said
