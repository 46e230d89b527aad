"""Keys whose plan the settings do not have: told in the log, once at start and once for each such
key that is used.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

import structlog

from meterline.access import ApiKey, lacks_plan
from meterline.limits import MISSING_PLANS_LOGGED_MAX

HINT: Final = (
    "put the plan back into the settings, or give the key another one (update-api-key); until then"
    " the plan `default` applies, or else the strictest one; without any plan there is no limit"
)

logger = structlog.get_logger("meterline.keys")


class MissingPlans:
    """Tells them; `plans` are the names that the settings have."""

    def __init__(self, plans: Collection[str]) -> None:
        self._plans = frozenset(plans)
        self._begun = False
        self._logged: set[str] = set()

    def tell_held(self, keys: Iterable[ApiKey], now_ms: int) -> None:
        """Of all keys that work, when they were read for the first time."""
        if self._begun:
            return
        self._begun = True
        lacking = [key for key in keys if lacks_plan(key, self._plans)]
        found = Counter(key.plan for key in lacking if key.state(now_ms) == "active")
        for plan, number in sorted(found.items(), key=str)[:MISSING_PLANS_LOGGED_MAX]:
            logger.warning("keys", action="plan missing", plan=plan, keys=number, hint=HINT)

    def tell_used(self, key: ApiKey) -> None:
        """Of a key that is let in; so many keys are told of and no more."""
        if not lacks_plan(key, self._plans) or key.id in self._logged:
            return
        if len(self._logged) < MISSING_PLANS_LOGGED_MAX:
            self._logged.add(key.id)
            logger.warning("keys", action="plan missing", plan=key.plan, key=key.id, hint=HINT)
