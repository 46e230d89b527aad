"""Traces are off unless a collector is named, and then nothing of OpenTelemetry is loaded."""

import subprocess
import sys
from contextlib import AsyncExitStack

import pytest
from pydantic import ValidationError

from meterline.ports import UNTRACED, Unsuitable
from meterline.runtime.cli import ROLES
from meterline.runtime.settings.fields import Settings
from meterline.runtime.wiring.telemetry import telemetry

URL = "http://127.0.0.1:9/v1/traces"


def test_no_role_loads_opentelemetry_by_itself() -> None:
    roles = ", ".join(f"meterline.runtime.roles.{module}" for module, _ in ROLES.values())
    code = f"import sys, {roles}; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


async def test_without_a_collector_nothing_is_traced() -> None:
    async with AsyncExitStack() as stack:
        assert telemetry(Settings(), "up", stack).tracer is UNTRACED


async def test_with_a_collector_spans_are_begun_at_the_rate_that_is_set() -> None:
    async with AsyncExitStack() as stack:
        assert telemetry(Settings(traces_url=URL, traces_ratio=1), "ingest", stack).tracer.on


async def test_the_standard_variable_switches_traces_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "TRUE")
    async with AsyncExitStack() as stack:
        settings = Settings(traces_url=URL, traces_ratio=1)
        assert telemetry(settings, "ingest", stack).tracer is UNTRACED


async def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "meterline.backends.telemetry.otlp", None)
    async with AsyncExitStack() as stack:
        with pytest.raises(Unsuitable, match=r"meterline\[traces\]"):
            telemetry(Settings(traces_url=URL), "ingest", stack)


@pytest.mark.parametrize(
    "url", ["collector:4318", "ftp://c/v1", "http://u:p@c/v1/traces", "http://"]
)
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="OTEL_EXPORTER_OTLP_HEADERS"):
        Settings(traces_url=url)
