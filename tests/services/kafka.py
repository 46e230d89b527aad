"""Kafka as a local process: one KRaft node, broker and controller in one."""

from functools import partial

from tests.services.command import run_to_end
from tests.services.fetch import Say, java, kafka_jars
from tests.services.local import LocalService, data_folder, free_port
from tests.services.ready import kafka_problem

CLUSTER_ID = "bWV0ZXJsaW5lLXRlc3RzMA"  # any 16 bytes in base64url
FORMAT_WITHIN_S = 60

# One node for many test modules at once: every internal topic has one replica and few partitions,
# groups start at once and notice a killed member soon, and topics are made on purpose only.
NODE_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Under its old session a restarted broker is refused; the default of 9 s makes a test wait.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "0",  # else records of nothing, twice a second
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "8388608",  # default 128 MB: a quarter of the heap
    "log.index.size.max.bytes": "1048576",  # default 10 MB a partition, and tests make many
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}


def local_kafka(say: Say) -> LocalService:
    """Return a broker that is ready to start, on a free port with an empty data folder."""
    jars = kafka_jars(say)
    runtime = [str(java()), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    runtime += ["-cp", f"{jars}/*"]
    broker, controller = free_port(), free_port()
    with data_folder("kafka") as folder:
        settings = {
            **NODE_SETTINGS,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(folder / "data"),
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        run_to_end(
            "format Kafka's data folder",
            [*runtime, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)],
            folder,
            FORMAT_WITHIN_S,
        )
    return LocalService(
        name="Kafka",
        url=f"127.0.0.1:{broker}",
        folder=folder,
        command=[*runtime, "kafka.Kafka", str(config)],
        problem=partial(kafka_problem, f"127.0.0.1:{broker}"),
    )
