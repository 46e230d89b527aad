"""A process that is told to stop behind a load balancer: it says so first, and refuses nothing."""

import http.client
import json
import os
import signal
import threading
from pathlib import Path
from urllib.parse import urlsplit

from tests.journey.deadline import until
from tests.journey.setups import SetUp, embedded, telling

EVENTS = "/api/v3/metering/events"
ONE = {"Content-Type": "application/cloudevents+json"}
DRAIN_S = "3"
WITHIN_S = 120.0


class Balanced:
    """A sender whose load balancer asks `/readyz` and goes elsewhere once it fails; it keeps its
    connection as long as answers let it.
    """

    def __init__(self, setup: SetUp) -> None:
        self.address = urlsplit(setup.ingest.url).netloc
        self.accepted = 0
        self.accepted_unready = 0
        self.failed: list[str] = []
        self.closed = 0
        self.leave = threading.Event()

    def send(self) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        while not self.leave.is_set():
            event = {
                "specversion": "1.0",
                "id": str(self.accepted),
                "source": "drain",
                "type": "t",
                "subject": "u",
            }
            try:
                status, closes = self._asked(connection, "POST", json.dumps(event))
                ready, closes_too = self._asked(connection, "GET", None)
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
                return
            if status != 202:
                self.failed.append(str(status))
                return
            self.accepted += 1
            self.closed += closes or closes_too
            if ready == 503:
                self.accepted_unready += 1
                if self.accepted_unready >= 5:  # as often as a balancer wants to see it fail
                    return

    def _asked(
        self, connection: http.client.HTTPConnection, method: str, body: str | None
    ) -> tuple[int, bool]:
        path = EVENTS if body else "/readyz"
        connection.request(method, path, body, ONE if body else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Connection") == "close"


def test_no_request_is_refused_while_a_balancer_learns_of_the_end(tmp_path: Path) -> None:
    setup = embedded(tmp_path, {"METERLINE_DRAIN_S": DRAIN_S})
    with telling(setup):
        setup.start()
        try:
            sender = Balanced(setup)
            sending = threading.Thread(target=sender.send)
            sending.start()
            until("events are sent", WITHIN_S, lambda: sender.accepted >= 20)
            os.kill(setup.processes["up"].pid, signal.SIGTERM)
            sending.join(WITHIN_S)
            assert not sender.failed
            assert sender.accepted_unready >= 5  # it said so, and took them all the same
            assert sender.closed >= 5
            until("it ends", WITHIN_S, lambda: setup.processes["up"].ended() is not None)
            assert setup.processes["up"].ended() == 0
            log = setup.processes["up"].log_path.read_text()
            assert "event=draining" in log
            setup.kill()
            setup.start()
            until("all is counted", WITHIN_S, lambda: setup.status["caught_up"])
            assert setup.status["account"]["received"] == sender.accepted
        finally:
            setup.kill()
