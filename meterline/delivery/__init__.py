"""Deliveries: what is sent to an endpoint, attempts, replays, and the health of endpoints."""

from meterline.delivery.delivery import (
    DELIVERY_MOVES,
    Attempt,
    AttemptOutcome,
    Delivery,
    DeliveryDraft,
    DeliveryMove,
    DeliveryState,
    content_id,
    delivery_id,
    delivery_sources,
    digest_of,
)
from meterline.delivery.endpoint.address import (
    Endpoint,
    basic_authorization,
    ends_in_a_number,
    parse_endpoint,
)
from meterline.delivery.endpoint.health import (
    UNOBSERVED,
    EndpointChange,
    EndpointObservation,
    EndpointSignal,
    Health,
    HealthTerms,
    after,
    change_of,
    distrusted,
)
from meterline.delivery.endpoint.standing import NOTHING_OUTSTANDING, Outstanding, Standing
from meterline.delivery.headers import (
    NAME_PATTERN,
    NO_HEADERS,
    VALUE_PATTERN,
    SealedHeaders,
    authorizes,
    headers_of,
    headers_text,
    name_fault,
    set_fault,
    value_fault,
)
from meterline.delivery.listing import DeliveryPlace, DeliveryQuery
from meterline.delivery.ports import (
    DeliveryBytes,
    Pulled,
    PullPlace,
    PullStore,
    ReplayStore,
    SecretBox,
    Sign,
    WebhookSender,
    Worked,
)
from meterline.delivery.replay import (
    Replay,
    ReplayState,
    due_after,
    portion,
    replayable,
    summary_of,
)
from meterline.delivery.sending import Address, Answer, AttemptEnd, ClaimedDelivery, Due, SendGrant
