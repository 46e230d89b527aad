"""API keys in v3 (contract section 5, rule 2): made, listed, changed, rotated, revoked.

A secret is shown once, in the answer that makes it. The rules of who may give what are in
`meterline.access.access`.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import web
from ulid import ULID

from control.handlers import Handlers, Operation
from control.shapes.pages import PageParameters, cursor_page, id_after, page_answer
from control.shapes.secret import secret_answer, secret_response
from control.v3.access.key_shapes import (
    KEY_EXAMPLE,
    KEY_PAGE,
    SECRET_EXAMPLE,
    ApiKeyBody,
    ApiKeyShown,
    ApiKeyUpdateBody,
    ApiKeyWithSecretShown,
    RotationBody,
    members,
    with_secret,
)
from meterline.access import (
    SECRET_BYTES,
    AccessStore,
    ApiKey,
    KeyDraft,
    KeyUpdate,
    Rotation,
    Scope,
    faults_of,
    hash_of,
    refusal,
    rotation_refusal,
    token_of,
    update_faults,
)
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import NoParameters
from meterline.ports import Clock
from meterline.problem import ProblemType, invalid, not_found


class V3Keys(Handlers, tag="API keys"):
    """Handlers of the keys of one namespace. `plans` are the names of those in the settings;
    `changed` is awaited before a change is answered, so that this process knows it.
    """

    def __init__(
        self,
        access: AccessStore,
        clock: Clock,
        plans: Collection[str],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._access = access
        self._clock = clock
        self._plans = plans
        self._changed = changed

    @Operation(
        id="create-api-key",
        route="POST /api-keys",
        summary="Create an API key",
        description="The answer shows the key; it is never shown again. A key gives no scope that "
        "it does not have, and no other plan than its own.",
        scope=Scope.KEYS_WRITE,
        body=json_body(ApiKeyBody, {"name": "Gateway in Frankfurt", "scopes": ["events:write"]}),
        answer=secret_answer(
            201, "The key, with its secret.", ApiKeyWithSecretShown, SECRET_EXAMPLE
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def create(self, call: Call[NoParameters, ApiKeyBody]) -> web.Response:
        """201 with the key and its secret; 400 with all faults, 409 where there are too many."""
        now_ms, giver, body = self._clock.now_ms(), call.principal, call.body
        draft = KeyDraft(
            body.name, frozenset(body.scopes), body.plan or giver.plan, body.expires_at
        )
        if faults := faults_of(draft, giver, self._plans, now_ms):
            raise invalid(*faults)
        token = token_of(str(ULID.from_timestamp(now_ms)), secrets.token_bytes(SECRET_BYTES))
        key = ApiKey(
            id=token.key_id,
            namespace=call.namespace,
            name=draft.name,
            scopes=draft.scopes,
            created_at_ms=now_ms,
            created_by=giver.author,
            secret_hash=hash_of(token.secret),
            plan=draft.plan,
            expires_at_ms=draft.expires_at_ms,
        )
        await self._access.create_key(key, author=giver.author)
        await self._changed()
        return secret_response(with_secret(key, token.text, now_ms, self._plans), 201)

    @Operation(
        id="list-api-keys",
        route="GET /api-keys",
        summary="List API keys",
        description="By creation, revoked and expired ones too.",
        scope=Scope.KEYS_READ,
        parameters=PageParameters,
        answer=page_answer("A page of keys.", KEY_PAGE, KEY_EXAMPLE, KEY_EXAMPLE["id"]),
    )
    async def list(self, call: Call[PageParameters, None]) -> web.Response:
        """One page, by creation."""
        page = call.parameters.page
        keys = await self._access.keys(call.namespace, page.size + 1, id_after(page))
        now_ms, plans = self._clock.now_ms(), self._plans
        return json_response(
            cursor_page(keys, page, lambda it: members(it, now_ms, plans), lambda it: it.id)
        )

    @Operation(
        id="get-api-key",
        route="GET /api-keys/{apiKeyId}",
        summary="Get an API key",
        scope=Scope.KEYS_READ,
        answer=Answer(200, "The key.", ApiKeyShown, example=KEY_EXAMPLE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The key."""
        return json_response(members(await self._key(call), self._clock.now_ms(), self._plans))

    @Operation(
        id="update-api-key",
        route="PUT /api-keys/{apiKeyId}",
        summary="Update an API key",
        description="Changes name, scopes or plan; what is left out stays as it is.",
        scope=Scope.KEYS_WRITE,
        body=json_body(ApiKeyUpdateBody, {"name": "Gateway in Paris"}),
        answer=Answer(200, "The key.", ApiKeyShown, example=KEY_EXAMPLE),
        problems=(ProblemType.CONFLICT,),
    )
    async def update(self, call: Call[NoParameters, ApiKeyUpdateBody]) -> web.Response:
        """The key as it is then; 403 where it has more scopes than the caller."""
        now_ms, giver, body = self._clock.now_ms(), call.principal, call.body
        scopes = None if body.scopes is None else frozenset(body.scopes)
        update = KeyUpdate(body.name, scopes, body.plan)
        key = await self._own_key(call)
        if faults := update_faults(update, giver, self._plans):
            raise invalid(*faults)
        changed = await self._access.update_key(
            key.namespace, key.id, update, now_ms, author=giver.author
        )
        await self._changed()
        return json_response(members(changed, now_ms, self._plans))

    @Operation(
        id="rotate-api-key",
        route="POST /api-keys/{apiKeyId}/rotate",
        summary="Rotate an API key",
        description="The answer shows the new secret, never again. The previous one works as well "
        "until the overlap ends; one that is older does not.",
        scope=Scope.KEYS_WRITE,
        body=json_body(RotationBody, {"overlap_seconds": 3_600}),
        answer=secret_answer(
            200, "The key, with its new secret.", ApiKeyWithSecretShown, SECRET_EXAMPLE
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def rotate(self, call: Call[NoParameters, RotationBody]) -> web.Response:
        """The key with its new secret; 403 where it has more scopes than the caller, or another
        plan.
        """
        now_ms = self._clock.now_ms()
        key = await self._own_key(call)
        if (refused := rotation_refusal(key, call.principal, self._plans)) is not None:
            raise refused
        token = token_of(key.id, secrets.token_bytes(SECRET_BYTES))
        rotation = Rotation(hash_of(token.secret), now_ms + call.body.overlap_seconds * 1_000)
        rotated = await self._access.rotate_key(
            key.namespace, key.id, rotation, now_ms, author=call.author
        )
        await self._changed()
        return secret_response(with_secret(rotated, token.text, now_ms, self._plans))

    @Operation(
        id="revoke-api-key",
        route="DELETE /api-keys/{apiKeyId}",
        summary="Revoke an API key",
        description="For good, and within 5 seconds everywhere. The key stays in the list.",
        scope=Scope.KEYS_WRITE,
        answer=Answer(204, "It is revoked."),
    )
    async def revoke(self, call: Call[NoParameters, None]) -> web.Response:
        """204, also for a key that was revoked before."""
        key = await self._own_key(call)
        await self._access.revoke_key(
            key.namespace, key.id, self._clock.now_ms(), author=call.author
        )
        await self._changed()
        return web.Response(status=204)

    async def _key(self, call: Call[NoParameters, Any]) -> ApiKey:
        key = await self._access.key(call.namespace, call.names["apiKeyId"])
        if key is None:
            raise not_found("API key", call.names["apiKeyId"])
        return key

    async def _own_key(self, call: Call[NoParameters, Any]) -> ApiKey:
        """A key that the caller may change. Raises `Problem`: not found, or forbidden."""
        key = await self._key(call)
        if (refused := refusal(key, call.principal)) is not None:
            raise refused
        return key
