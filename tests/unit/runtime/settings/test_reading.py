import os
import re
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from meterline.access import Policy
from meterline.runtime.settings.fields import ENV_PREFIX
from meterline.runtime.settings.reading import Settings, SettingsError, load_settings
from tests.unit.runtime.settings.examples import working


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, without any METERLINE_* variable; return the folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
    return tmp_path


def refusal(config_path: Path | None = None, overrides: dict[str, object] | None = None) -> str:
    """Load settings that must be refused; return the words of the refusal."""
    with pytest.raises(SettingsError) as caught:
        load_settings(config_path, overrides)
    return str(caught.value)


def test_without_file_and_variables_the_product_is_embedded() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert settings.embedded
    assert (settings.host, settings.port) == ("127.0.0.1", 8888)
    assert settings.partitions == 4
    assert settings.seen_dir == Path("meterline-data/seen")
    assert settings.kafka_servers == ""
    assert ip_network("127.0.0.0/8") in settings.webhook_networks_allowed
    keyed = Settings(access_mode="keys")
    assert keyed.webhook_networks_allowed == (), "a key must not reach what listens here"
    assert settings.retry_delays_s == (0, 5, 300, 1800, 7200, 18000, 36000, 36000)


def test_command_line_wins_over_variable_wins_over_file(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / "meterline.toml").write_text('port = 1\nhost = "::1"\nlog_level = "error"\n')
    monkeypatch.setenv("METERLINE_PORT", "2")
    monkeypatch.setenv("METERLINE_HOST", "localhost")
    settings = load_settings(overrides={"port": 3, "host": None})
    assert (settings.port, settings.host, settings.log_level) == (3, "localhost", "error")


def test_the_file_is_named_by_option_then_variable(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("meterline.toml", "variable.toml", "option.toml"), start=1):
        (clean / name).write_text(f"port = {number}\n")
    assert load_settings().port == 1
    monkeypatch.setenv("METERLINE_CONFIG", "variable.toml")
    assert load_settings().port == 2
    assert load_settings(Path("option.toml")).port == 3


def test_a_distributed_setup_has_its_own_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METERLINE_LOG_URL", "kafka://a:9092,b:9092")
    monkeypatch.setenv("METERLINE_DATA_DIR", "elsewhere")
    settings = load_settings()
    assert settings.partitions == 8
    assert settings.kafka_servers == "a:9092,b:9092"
    assert settings.webhook_networks_allowed == ()
    assert settings.seen_dir == Path("elsewhere/seen")
    assert not settings.embedded


def test_lists_and_tables_can_be_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METERLINE_LOG_URL", "kafka://kafka:9092")
    monkeypatch.setenv("METERLINE_INBOX_TOPICS", '{"orders": "shop"}')
    monkeypatch.setenv("METERLINE_WEBHOOK_NETWORKS_ALLOWED", "10.0.0.0/8, fd00::/8")
    monkeypatch.setenv("METERLINE_RETRY_DELAYS_S", "[0, 60]")
    settings = load_settings()
    assert settings.inbox_topics == {"orders": "shop"}
    assert settings.webhook_networks_allowed == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.retry_delays_s == (0, 60)


def test_meters_are_kept_as_the_file_has_them(clean: Path) -> None:
    (clean / "meterline.toml").write_text(
        '[[meters]]\nkey = "calls"\naggregation = "count"\n\n[[meters]]\nkey = "bytes"\n'
        'dimensions = { region = "$.region" }\n'
    )
    assert load_settings().meters == [
        {"key": "calls", "aggregation": "count"},
        {"key": "bytes", "dimensions": {"region": "$.region"}},
    ]


def test_every_faulty_setting_is_listed_with_its_names_its_origin_and_an_example(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / "meterline.toml").write_text("horizon_days = 0\n")
    monkeypatch.setenv("METERLINE_PORT", "http")
    words = refusal(overrides={"log_level": "loud"})
    assert words.startswith("3 settings are invalid:")
    (horizon,) = (line for line in words.splitlines() if "horizon_days (" in line)
    assert "METERLINE_HORIZON_DAYS" in horizon
    assert "from meterline.toml" in horizon
    assert "greater than or equal to 1" in horizon
    assert "`horizon_days = 35`" in horizon
    assert "port (variable METERLINE_PORT), from METERLINE_PORT" in words
    assert "log_level (variable METERLINE_LOG_LEVEL), from --log-level" in words


def test_an_unknown_setting_is_an_error_that_names_the_likely_one(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / "meterline.toml").write_text("horizon_day = 3\nzzz = 1\n")
    monkeypatch.setenv("METERLINE_HOTS", "0.0.0.0")
    words = refusal()
    assert "METERLINE_HOTS: there is no such setting. Did you mean METERLINE_HOST?" in words
    assert "horizon_day in meterline.toml: there is no such setting. Did you mean horiz" in words
    assert "zzz in meterline.toml: there is no such setting. Remove it." in words


def test_variables_of_the_tests_and_empty_ones_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("METERLINE_TEST_KAFKA", "127.0.0.1:9092")
    monkeypatch.setenv("METERLINE_SECRET_KEY", "")
    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("log_url", "kafka://", "is not host:port"),
        ("log_url", "kafka://a:9092,b", "'b' is not host:port"),
        ("log_url", "redis://a", "must be sqlite or start with kafka://"),
        ("log_url", "kafka://app:word@a:9092", "set log_sasl, log_user and log_password_file"),
        ("keep_minutes_days", 91, "greater than or equal to 92"),
        ("usage_url", "clickhouse://a", "must be chdb or an http://"),
        ("control_url", "mysql://a/b", "must be sqlite or a postgresql://"),
        ("keep_events_days", 34, "must be at least horizon_days = 35"),
        ("keep_refusals_days", 6, "must be at least log_retention_days = 7"),
        ("grace_ms", 10_999, "produce_deadline_ms + clock_skew_ms = 11000"),
        ("produce_deadline_ms", 60_000, "produce_deadline_ms + clock_skew_ms = 61000"),
        ("webhook_networks_allowed", ["10.0.0.1/8"], "has host bits set"),
        ("retry_delays_s", [0, -1], "retry_delays_s[1]"),
        ("retry_delays_s", [], "at least 1 item"),
        ("retry_every_s", 0, "greater than 0"),
        ("retry_patience_s", -1, "greater than or equal to 0"),
        ("endpoint_per_second", 0, "greater than 0"),
        (
            "webhook_proxy",
            "https://proxy:1",
            "must be http://host:port or http://user:password@host:port",
        ),
        (
            "webhook_proxy",
            "http://:1",
            "must be http://host:port or http://user:password@host:port",
        ),
        ("log_topic", "a topic", "should match pattern"),
        ("partitions", 0, "greater than or equal to 1"),
        ("secret_key", "short", "at least 32 characters"),
        ("inbox_topics", "{", "is not JSON"),
        ("port", 65_536, "less than or equal to 65535"),
        ("host", "0.0.0.0", "everybody who can reach 0.0.0.0"),
        ("host", "meter.example.com", "everybody who can reach meter.example.com"),
        ("access_mode", "key", "Input should be 'none' or 'keys'"),
        ("plans", {"small": {"requests": {"quota": 0}}}, "plans.small.requests.quota"),
        ("plans", {"small": {"request": {"quota": 1}}}, "plans.small.request "),
        ("plans", {"a plan": {}}, "plans.a plan"),
        ("plans", {"small": {"events": {"quota": 1, "window_s": 86_401}}}, "plans.small.events.w"),
        ("limit_shares", 0, "greater than or equal to 1"),
        ("allowed_hosts", "https://meter.example.com", "write a host as meter.example.com"),
        ("allowed_hosts", ["127.1"], "write a host as meter.example.com"),
        ("allowed_hosts", ["meter.example.com:99999"], "a port that is not a number up to 65535"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(name: str, value: object, said: str) -> None:
    assert said in refusal(overrides={name: value})


def test_passwords_and_keys_are_never_shown() -> None:
    key = "k3y-" * 10
    words = refusal(overrides={"secret_key": "hunter2", "control_url": "mysql://u:hunter2@h/d"})
    assert "hunter2" not in words
    for name, url in (
        ("usage_url", "http://u:hunter2@h:x/d"),
        ("usage_url", "http://u:hunter2/with-a-slash@h/d"),
        ("control_url", "postgresql://u:hunter2/with-a-slash@h/d"),
        ("control_url", "postgresql://u:hunter2@[h/d"),
        ("traces_url", "http://u:hunter2@h/v1/traces"),
        ("traces_url", "http://u:hunter2/with-a-slash@h/v1/traces"),
    ):
        assert "hunter2" not in refusal(overrides={name: url}), name
    assert key not in repr(Settings.model_validate({"secret_key": key}))


def test_a_file_that_is_named_must_be_there_and_be_toml(clean: Path) -> None:
    assert "absent.toml: no such file. Correct or remove --config" in refusal(Path("absent.toml"))
    (clean / "broken.toml").write_text("port = \n")
    assert "broken.toml is not valid TOML" in refusal(Path("broken.toml"))
    assert "line 1" in refusal(Path("broken.toml"))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc] # the type says it as well


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_says_when_to_change_it_and_shows_values_that_work(
    name: str, clean: Path
) -> None:
    field = Settings.model_fields[name]
    assert field.description is not None
    assert re.search(r"\. (?:Set|Change) it (?!\.)", field.description), "say when to change it"
    assert field.examples, name
    for example in field.examples:
        load_settings(overrides=working(name, example, clean))


def test_inbox_topics_need_a_log_on_kafka() -> None:
    assert "set log_url to kafka://" in refusal(overrides={"inbox_topics": {"orders": "default"}})


def test_an_address_that_others_reach_needs_keys_or_a_word() -> None:
    words = refusal(overrides={"host": "0.0.0.0"})
    assert words.startswith("a setting is invalid:")
    for said in ("`meterline keys create`", "127.0.0.1", "public_without_keys", '"keys"'):
        assert said in words
    ways: list[dict[str, object]] = [
        {"access_mode": "keys"},
        {"public_without_keys": True},
        {"host": "127.8.9.1"},
        {"host": "::1"},
        {"host": "localhost"},
    ]
    for way in ways:
        load_settings(overrides={"host": "0.0.0.0", **way})


def test_a_faulty_host_is_told_and_nothing_else() -> None:
    words = refusal(overrides={"host": ""})
    assert words.startswith("a setting is invalid:"), words


def test_a_plan_is_the_policies_of_its_limits(clean: Path) -> None:
    (clean / "meterline.toml").write_text(
        "[plans.small]\nrequests = { quota = 5 }\nevents = { quota = 100, window_s = 1 }\n"
        "[plans.free]\n"
    )
    plans = load_settings().plans
    assert plans["small"].policies == (Policy("requests", 5, 60), Policy("events", 100, 1))
    assert plans["free"].policies == ()


def test_plans_can_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METERLINE_PLANS", '{"default": {"events": {"quota": 7}}}')
    monkeypatch.setenv("METERLINE_PUBLIC_WITHOUT_KEYS", "true")
    settings = load_settings()
    assert settings.plans["default"].policies == (Policy("events", 7, 60),)
    assert settings.public_without_keys
