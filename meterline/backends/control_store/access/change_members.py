"""What of keys, meters and reports is kept with their changes: values before and after, no secret.

What is said of subjects may be about a person, and is erased with them: it is not kept here.
"""

from collections.abc import Mapping

from meterline.access import ApiKey
from meterline.meter import Meter, MeterDraft
from meterline.report import Report, Schedule, filter_document
from meterline.window import rfc3339


def of_key(key: ApiKey) -> Mapping[str, object]:
    """By the names of v3."""
    return {"name": key.name, "scopes": sorted(key.scopes), "plan": key.plan}


def of_meter(meter: Meter | MeterDraft) -> Mapping[str, object]:
    """By the names of v3: its words, and what is measured."""
    return {
        "name": meter.name,
        "description": meter.description,
        "labels": dict(meter.labels),
        "event_type": meter.event_type,
        "value_property": meter.value_property,
        "dimensions": dict(meter.dimensions),
    }


def of_report(report: Report) -> Mapping[str, object]:
    """By the names of v3. Of the headers their names; of the user information of the endpoint
    whether there is any.
    """
    return {
        "schedule": _schedule(report.schedule_asked),
        "group_by_dimensions": list(report.group_by),
        "filter": filter_document(report.filter),
        "endpoint.url": report.endpoint,
        "endpoint.user_info": report.user_info_sealed is not None,
        "endpoint.headers": list(report.headers.names),
        "revisions": report.revisions.value,
        "grace_seconds": None if report.grace_ms is None else report.grace_ms // 1_000,
    }


def _schedule(schedule: Schedule) -> Mapping[str, object]:
    return {"interval": schedule.interval.value, "start_at": rfc3339(schedule.start_at_ms)}
