"""What a topic must be set to, and what is only told."""

import pytest

from meterline.backends.kafka.topic_settings import Replicas, check, of_new
from meterline.ports import Unsuitable

HOUR_MS = 3_600_000
GOOD = {**of_new(3, HOUR_MS)[1], "retention.bytes": "-1", "compression.type": "producer"}


def refused(replicas: Replicas, **changed: str) -> str:
    found = {**GOOD, **{name.replace("_", "."): value for name, value in changed.items()}}
    with pytest.raises(Unsuitable) as caught:
        check("events", found, replicas, HOUR_MS)
    return str(caught.value)


def hints(replicas: Replicas, **changed: str) -> list[str]:
    found = {**GOOD, **{name.replace("_", "."): value for name, value in changed.items()}}
    return list(check("events", found, replicas, HOUR_MS))


@pytest.mark.parametrize("brokers", [1, 2, 3, 9])
def test_a_topic_as_it_is_made_is_fine(brokers: int) -> None:
    copies, made = of_new(brokers, HOUR_MS)
    found = {**GOOD, **made}
    assert list(check("events", found, Replicas(brokers, copies), HOUR_MS)) == []


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("cleanup_policy", "compact,delete", "cleanup.policy=delete"),
        ("message_timestamp_type", "CreateTime", "message.timestamp.type=LogAppendTime"),
        ("unclean_leader_election_enable", "true", "unclean.leader.election.enable=false"),
        ("max_message_bytes", "900000", "max.message.bytes=2097152"),
        ("retention_ms", "3599999", "retention.ms=3600000"),
        ("retention_bytes", "1073741824", "retention.bytes=-1"),
        ("min_insync_replicas", "1", "min.insync.replicas=2"),
        ("min_insync_replicas", "4", "min.insync.replicas=2"),
    ],
)
def test_what_loses_events_or_takes_none_is_refused_with_the_command(
    name: str, value: str, wanted: str
) -> None:
    told = refused(Replicas(3, 3), **{name: value})
    assert f"until it is set to: {wanted}. Run `kafka-configs.sh " in told
    assert f"--entity-name events --add-config {wanted}`, then start again" in told


def test_everything_that_is_wrong_is_one_command() -> None:
    told = refused(Replicas(3, 3), retention_bytes="5", min_insync_replicas="1")
    assert "--add-config retention.bytes=-1,min.insync.replicas=2`" in told


def test_one_broker_has_one_copy() -> None:
    assert hints(Replicas(1, 1), min_insync_replicas="1") == []
    assert "min.insync.replicas=1" in refused(Replicas(1, 1), min_insync_replicas="2")


def test_what_costs_something_is_told() -> None:
    (fewer,) = hints(Replicas(5, 1), min_insync_replicas="1")
    assert "each record is on 1 of 5 brokers" in fewer
    (all_of_them,) = hints(Replicas(3, 3), min_insync_replicas="3")
    assert "while one broker is away, no event is taken in" in all_of_them
    (again,) = hints(Replicas(3, 3), compression_type="gzip")
    assert "compression.type=producer" in again
    assert hints(Replicas(3, 3), compression_type="zstd", retention_ms="-1") == []


@pytest.mark.parametrize("copies", [1, 3])
def test_brokers_that_tell_less_than_kafka_are_not_refused_for_it(copies: int) -> None:
    untold = {"min.insync.replicas", "compression.type"}
    found = {name: value for name, value in GOOD.items() if name not in untold}
    assert list(check("events", found, Replicas(3, copies), HOUR_MS)) == hints(
        Replicas(3, copies), min_insync_replicas=str(min(2, copies))
    )
