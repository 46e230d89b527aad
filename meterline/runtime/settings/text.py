"""Settings as text: tables and lists in a METERLINE_* variable."""

import json


def decoded(value: object) -> object:
    """Return a variable's JSON as a value; anything that is not text came from the file: as it is.

    Raises:
        ValueError: text that is not JSON.

    """
    if not isinstance(value, str):
        return value
    try:
        answer: object = json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    return answer


def decoded_list(value: object) -> object:
    """As `decoded`, but a list of plain words may be written with commas: `10.0.0.0/8,::1/128`."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",") if part.strip()]
    return decoded(value)
