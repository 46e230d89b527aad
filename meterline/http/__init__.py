"""The HTTP edge of ingest and control: operations, reading, gate, problems."""

from meterline.http.answers import (
    REQUEST_ID,
    REQUEST_ID_HEADER,
    SERVER_OPTIONS,
    answer_headers,
    json_response,
    new_request_id,
    problem_middleware,
    problem_response,
    with_request_id,
)
from meterline.http.bodies import read_body

__all__ = [
    "REQUEST_ID",
    "REQUEST_ID_HEADER",
    "SERVER_OPTIONS",
    "answer_headers",
    "json_response",
    "new_request_id",
    "problem_middleware",
    "problem_response",
    "read_body",
    "with_request_id",
]
