"""How Faust is set up: without tables, a web server and topics of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import faust
from faust.tables import TableManager

from aggregator.drivers.faust_credentials import credentials
from meterline.limits import (
    FAUST_BUFFER_RECORDS_MAX,
    FAUST_COMMIT_LATE_S,
    FAUST_METADATA_MAX_AGE_MS,
    FAUST_SESSION_TIMEOUT_S,
)


@dataclass(frozen=True, slots=True)
class Membership:
    """Which group of which brokers a worker is a member of. `instance_id` is its own name there,
    empty for none.
    """

    group: str
    brokers: str  # host:port,...
    topic: str
    datadir: str
    instance_id: str = ""
    security: Mapping[str, Any] = field(default_factory=dict)  # aiokafka's own arguments
    client_id: str = "aggregator"  # what it is called where the members of the group are listed


class _NoTables(TableManager):
    """Faust waits a second for tables that a program may still declare: here are none."""

    async def sleep(self, n: Any) -> None:
        """At once."""


def faust_app(membership: Membership) -> faust.App:
    """A member of the group."""
    return faust.App(
        membership.group,
        broker=";".join(f"kafka://{broker}" for broker in membership.brokers.split(",")),
        broker_client_id=membership.client_id,
        broker_credentials=credentials(membership.security),
        datadir=membership.datadir,
        TableManager=_NoTables,
        store="memory://",
        topic_disable_leader=True,
        topic_allow_declare=False,
        table_standby_replicas=0,
        stream_wait_empty=False,
        stream_buffer_maxsize=FAUST_BUFFER_RECORDS_MAX,
        broker_session_timeout=FAUST_SESSION_TIMEOUT_S,
        # A member with a name of its own does not leave when it stops, and is given what it had
        # when it comes back (KIP-345): nobody else moves.
        consumer_group_instance_id=membership.instance_id or None,
        broker_max_poll_records=FAUST_BUFFER_RECORDS_MAX,
        # A leader of the group that does not know the topic's partitions assigns none to anybody;
        # only newer metadata makes it assign again, by default after five minutes.
        consumer_metadata_max_age_ms=FAUST_METADATA_MAX_AGE_MS,
        # Offsets are committed when slices are sealed; by default Faust calls five minutes a fault.
        broker_commit_livelock_soft_timeout=FAUST_COMMIT_LATE_S,
        consumer_auto_offset_reset="earliest",  # never relied on: the start comes from the seals
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
