"""What the operations of the account, the audit and the trace stand on."""

from dataclasses import dataclass

from meterline.audit import Auditor, DeliveryLineage, EventLineage
from meterline.usage import AccountStore


@dataclass(frozen=True, slots=True)
class Ledger:
    """Readers of what is stored, beside the stores that everything else stands on."""

    accounts: AccountStore
    auditor: Auditor
    events: EventLineage
    deliveries: DeliveryLineage
