"""The HTTP edge of ingest and control: operations, reading, gate, problems."""

from meterline.http.answers import (
    SERVER_OPTIONS,
    answer_headers,
    json_response,
    problem_middleware,
    problem_response,
    with_request_id,
)
from meterline.http.bodies import read_body
