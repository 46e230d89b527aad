"""A real broker with a listener for each way to log in, and all over TLS."""

import base64
import json
import time
from functools import partial
from pathlib import Path
from typing import Final

from tests.contract.connections.authority import Authority
from tests.services.command import run_to_end
from tests.services.fetch import java, kafka_jars
from tests.services.kafka import CLUSTER_ID, FORMAT_WITHIN_S, NODE_SETTINGS
from tests.services.local import LocalService, data_folder, free_port
from tests.services.ready import kafka_problem

USER: Final = "meterline"
PASSWORD: Final = "first-password"
REAUTH_MS: Final = 3_000  # a login lasts so long: then the broker closes the connection
_MODULES: Final = "org.apache.kafka.common.security"
_SHA: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class SecuredKafka:
    """`mutual` asks for a certificate of the client; `sasl` for a login."""

    def __init__(self, authority: Authority) -> None:
        ports = {name: free_port() for name in ("PLAINTEXT", "MUTUAL", "SASL", "CONTROLLER")}
        self.plain, self.mutual, self.sasl = (
            f"127.0.0.1:{ports[name]}" for name in ("PLAINTEXT", "MUTUAL", "SASL")
        )
        self._runtime = [str(java()), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._runtime += ["-cp", f"{kafka_jars(lambda _: None)}/*"]
        with data_folder("secured-kafka") as self.folder:
            config = self.folder / "server.properties"
            settings = _settings(ports, authority, self.folder)
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            command = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
            for sha in _SHA:
                command += ["--add-scram", f"{sha}=[name={USER},password={PASSWORD}]"]
            self._run("format Kafka's data folder", command)
        self.service = LocalService(
            name="Kafka",
            url=self.plain,
            folder=self.folder,
            command=[*self._runtime, "kafka.Kafka", str(config)],
            problem=partial(kafka_problem, self.plain),
        )

    def change_password(self, password: str) -> None:
        """Of SCRAM-SHA-512: new connections need it."""
        command = ["kafka.admin.ConfigCommand", "--bootstrap-server", self.plain, "--alter"]
        command += ["--entity-type", "users", "--entity-name", USER]
        command += ["--add-config", f"SCRAM-SHA-512=[password={password}]"]
        self._run("change a password", command)

    def _run(self, purpose: str, command: list[str]) -> None:
        run_to_end(purpose, [*self._runtime, *command], self.folder, FORMAT_WITHIN_S)


def _settings(ports: dict[str, int], authority: Authority, folder: Path) -> dict[str, str]:
    server = authority.pair("kafka", folder)
    shown = ("PLAINTEXT", "MUTUAL", "SASL")
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MUTUAL:SSL,SASL:SASL_SSL"
    settings = {
        **NODE_SETTINGS,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{it}://127.0.0.1:{ports[it]}" for it in shown),
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "log.dirs": str(folder / "data"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.sasl.sasl.enabled.mechanisms": f"PLAIN,OAUTHBEARER,{','.join(_SHA)}",
        "listener.name.sasl.connections.max.reauth.ms": str(REAUTH_MS),
    }
    modules = {
        "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
        "scram-sha-256": "scram.ScramLoginModule required",
        "scram-sha-512": "scram.ScramLoginModule required",
        "oauthbearer": "oauthbearer.OAuthBearerLoginModule required",
    }
    for mechanism, module in modules.items():
        settings[f"listener.name.sasl.{mechanism}.sasl.jaas.config"] = f"{_MODULES}.{module};"
    return settings


def token(lives_s: int) -> str:
    """A token that nobody signed, which a broker without an authority of tokens takes."""
    now_s = int(time.time())
    parts: tuple[dict[str, object], ...] = (
        {"alg": "none"},
        {"sub": USER, "iat": now_s, "exp": now_s + lives_s},
    )
    return ".".join(_encoded(part) for part in parts) + "."


def _encoded(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
