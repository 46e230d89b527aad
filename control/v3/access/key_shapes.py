"""What of an API key is sent and shown in v3."""

from collections.abc import Collection
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import page_shape
from meterline.access import ApiKey, Scope, lacks_plan
from meterline.http.shapes import Closed, Instant, InstantShown, NoNul, Ulid
from meterline.limits import (
    KEY_NAME_CHARS_MAX,
    KEY_OVERLAP_S,
    KEY_OVERLAP_S_MAX,
    PLAN_NAME_CHARS_MAX,
)
from meterline.window import rfc3339

KeyName = Annotated[
    str,
    Field(min_length=1, max_length=KEY_NAME_CHARS_MAX, description="For people."),
    NoNul,
]
Scopes = Annotated[
    list[Scope], Field(min_length=1, max_length=len(Scope), description="What the key may do.")
]
PlanName = Annotated[str, Field(max_length=PLAN_NAME_CHARS_MAX), NoNul]


class ApiKeyBody(Closed):
    """A new key. Without `plan` it has that of the key that makes it."""

    name: KeyName
    scopes: Scopes
    plan: Annotated[Maybe[PlanName], Field(description="Name of a plan of the settings.")] = None
    expires_at: Annotated[
        Maybe[Instant], Field(description="When it stops working; never, if absent.")
    ] = None


class ApiKeyUpdateBody(Closed):
    """What is to change; what is left out stays as it is."""

    name: Maybe[KeyName] = None
    scopes: Maybe[Scopes] = None
    plan: Annotated[
        Maybe[PlanName], Field(description="Name of a plan of the settings; empty for none.")
    ] = None


class RotationBody(Closed):
    """How the secret is replaced."""

    overlap_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=KEY_OVERLAP_S_MAX,
            description="For so long the previous secret works as well.",
        ),
    ] = KEY_OVERLAP_S


class ApiKeyShown(TypedDict):
    """A key, without its secret."""

    id: Ulid
    name: str
    scopes: list[Scope]
    state: Annotated[
        Literal["active", "expired", "revoked"], Field(description="Only an active key works.")
    ]
    created_at: InstantShown
    created_by: Annotated[str, Field(description="`key:<id>`, `anonymous` or `command`.")]
    plan: NotRequired[Annotated[Maybe[str], Field(description="The plan whose limits apply.")]]
    plan_missing: NotRequired[
        Annotated[
            Maybe[Literal[True]],
            Field(
                description="The settings have no plan of this name. The plan `default` applies, "
                "or else the strictest one; without any plan there is no limit. Give the key "
                "another plan, or put the plan back into the settings."
            ),
        ]
    ]
    expires_at: NotRequired[Maybe[InstantShown]]
    revoked_at: NotRequired[Maybe[InstantShown]]
    rotated_at: NotRequired[Maybe[InstantShown]]
    previous_secret_until: NotRequired[
        Annotated[
            Maybe[InstantShown], Field(description="Until then the previous secret works as well.")
        ]
    ]
    last_used_at: NotRequired[
        Annotated[Maybe[InstantShown], Field(description="Up to a few seconds behind.")]
    ]


class ApiKeyWithSecretShown(ApiKeyShown):
    """A key with its secret, which is never shown again."""

    key: Annotated[
        str,
        Field(
            pattern=r"^mtl_[0-7][0-9A-HJKMNP-TV-Z]{25}_[A-Za-z0-9_-]{43}$",
            description="To be sent as `Authorization: Bearer <key>`.",
        ),
    ]


KEY_PAGE: Final = page_shape("ApiKeyPageShown", ApiKeyShown, "A page of keys, by creation.")
KEY_EXAMPLE: Final[ApiKeyShown] = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "name": "Gateway in Frankfurt",
    "scopes": [Scope.EVENTS_WRITE],
    "state": "active",
    "created_at": "2026-01-31T10:00:00Z",
    "created_by": "command",
    "last_used_at": "2026-01-31T10:05:12.345Z",
}
SECRET_EXAMPLE: Final[ApiKeyWithSecretShown] = {
    **KEY_EXAMPLE,
    "key": "mtl_01M7ZMF4YA7D2SQ292V0W9JPT8_" + "Ab3-" * 10 + "xyz",
}


def members(key: ApiKey, now_ms: int, plans: Collection[str]) -> ApiKeyShown:
    """The key as v3 shows it; what it does not have is left out. `plans` are those of the
    settings.
    """
    previous_ms = key.previous_until_ms
    shown: ApiKeyShown = {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "state": key.state(now_ms),
        "created_at": rfc3339(key.created_at_ms),
        "created_by": key.created_by,
        "plan": key.plan,
        "plan_missing": lacks_plan(key, plans) or None,
        "expires_at": instant(key.expires_at_ms),
        "revoked_at": instant(key.revoked_at_ms),
        "rotated_at": instant(key.rotated_at_ms),
        "previous_secret_until": instant(previous_ms) if (previous_ms or 0) > now_ms else None,
        "last_used_at": instant(key.last_used_at_ms),
    }
    return present(shown)


def with_secret(
    key: ApiKey, text: str, now_ms: int, plans: Collection[str]
) -> ApiKeyWithSecretShown:
    """The key with its secret, for the one answer that shows it."""
    return {**members(key, now_ms, plans), "key": text}
