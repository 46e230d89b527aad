"""Read the settings: command line over METERLINE_* variables over `meterline.toml`."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from meterline.runtime.connections.watched import is_place
from meterline.runtime.settings.fields import ENV_PREFIX, Settings

__all__ = ["Settings", "SettingsError", "load_settings"]

CONFIG_VARIABLE: Final = "METERLINE_CONFIG"
WORKER_VARIABLE: Final = "METERLINE_WORKER"  # a parent gives it to its workers
OTHER_VARIABLES: Final = frozenset(
    {CONFIG_VARIABLE, WORKER_VARIABLE, "METERLINE_RECEIVE_SECRET", "METERLINE_API_KEY"}
)
CONFIG_DEFAULT: Final = Path("meterline.toml")
TEST_PREFIX: Final = "METERLINE_TEST_"  # servers of the tests, no settings of the product
NEVER_SHOWN: Final = frozenset(
    # may hold a password
    {"secret_key", "control_url", "usage_url", "usage_shards", "usage_replicas", "webhook_proxy"}
)
OF_SECRETS: Final = ("_password_file", "_token_file", "_key_file")  # or what should be in it
PEM: Final = "-----"  # what keys and certificates begin with
WITHOUT_LOGIN: Final = frozenset({"log_url", "traces_url"})  # with one they are refused
VALUE_CHARS_MAX: Final = 60  # of a value that is shown in an error

_FOLLOWING: Final = "default_factory_not_called"  # pydantic's mark on a default that needs another


class SettingsError(Exception):
    """The settings cannot be used; the text lists each faulty one and what to do about it."""


def load_settings(
    config_path: Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings, valid and complete.

    Args:
        config_path: the file, from the command line; else METERLINE_CONFIG names it; else
            `meterline.toml` in the working folder, if there.
        overrides: settings from the command line; None as a value means "not given".

    Raises:
        SettingsError: a file that cannot be read, a setting that does not exist or a value that
            cannot be used; all of them are listed.

    """
    path = _config_path(config_path)
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    assert given.keys() <= Settings.model_fields.keys(), "options of the command line are settings"
    in_file = _from_file(path)
    in_variables = EnvSettingsSource(Settings, env_ignore_empty=True)()
    lines = [_unknown_variable(name) for name in _unknown_variables()]
    try:
        settings = Settings.model_validate({**in_file, **in_variables, **given})
    except ValidationError as error:
        for details in error.errors(include_url=False):
            if details["type"] != _FOLLOWING:
                origin = _origin(str(details["loc"][0]), given, in_variables, path)
                lines.append(_line(details, origin))
    else:
        if not lines:
            return settings
    count = "a setting is" if len(lines) == 1 else f"{len(lines)} settings are"
    listed = "\n".join(f"- {line}" for line in lines)
    raise SettingsError(f"{count} invalid:\n{listed}")


def _config_path(from_command_line: Path | None) -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    if from_command_line is not None:
        path, origin = from_command_line, "--config"
    elif named:
        path, origin = Path(named), CONFIG_VARIABLE
    else:
        return CONFIG_DEFAULT if CONFIG_DEFAULT.is_file() else None
    if not path.is_file():
        raise SettingsError(f"{path}: no such file. Correct or remove {origin}")
    return path


def _from_file(path: Path | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        return TomlConfigSettingsSource(Settings, toml_file=path)()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}. Correct the file") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error


def _unknown_variables() -> list[str]:
    known = {_variable(name) for name in Settings.model_fields} | OTHER_VARIABLES
    return sorted(
        name
        for name in os.environ
        if name.startswith(ENV_PREFIX) and not name.startswith(TEST_PREFIX) and name not in known
    )


def _unknown_variable(name: str) -> str:
    hint = _meant(name.removeprefix(ENV_PREFIX).lower())
    meant = f" Did you mean {_variable(hint)}?" if hint else " Unset it."
    return f"{name}: there is no such setting.{meant}"


def _line(details: ErrorDetails, origin: str) -> str:
    name, *inner = details["loc"]
    if details["type"] == "extra_forbidden" and not inner:
        hint = _meant(str(name))
        meant = f" Did you mean {hint}?" if hint else " Remove it."
        return f"{name} in {origin}: there is no such setting.{meant}"
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner if part != "[key]"
    )
    wrong = details["msg"].removeprefix("Value error, ")
    hidden = _is_hidden(str(name), str(details["input"]))
    shown = "" if hidden else f" (it is {_short(details['input'])})"
    variable = _variable(str(name))
    example = _example(str(name))
    return f"{name}{where} (variable {variable}), from {origin}: {wrong}{shown}. Example: {example}"


def _is_hidden(name: str, value: str) -> bool:
    """Whether a value may be a secret, or have one in it."""
    return (
        name in NEVER_SHOWN
        or (name in WITHOUT_LOGIN and "@" in value)
        or (name.endswith("_file") and PEM in value)
        or (name.endswith(OF_SECRETS) and not is_place(Path(value)))
    )


def _origin(
    name: str, given: Mapping[str, object], in_variables: Mapping[str, object], path: Path | None
) -> str:
    if name in given:
        return f"--{name.replace('_', '-')}"
    if name in in_variables:
        return _variable(name)
    return str(path) if path is not None else "its default"


def _variable(name: str) -> str:
    return f"{ENV_PREFIX}{name.upper()}"


def _meant(name: str) -> str | None:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return close[0] if close else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def _example(name: str) -> str:
    """The setting as a line of TOML; every field has an example."""
    examples = Settings.model_fields[name].examples
    assert examples, "each setting shows how it is written"
    return f"`{name} = {_toml(examples[-1])}`"


def _toml(value: object) -> str:
    match value:
        case dict():
            return (
                "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
            )
        case list():
            return "[" + ", ".join(_toml(inner) for inner in value) + "]"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)
