"""Tables of API keys, of the history of changes, and of described subjects."""

from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, Index, Integer, LargeBinary, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

# The version of all keys, in one row. A change of a key updates this row first, so versions become
# visible in ascending order.
keys_version: Final = table(
    "keys_version",
    key("one", Integer, "Always 1."),
    required("version", BigInteger, "Grows with each change of a key."),
    CheckConstraint("one = 1", name="single_row"),
)

# API keys. Revoked keys stay, because changes name them. Secrets are kept as hashes only.
api_keys: Final = table(
    "api_keys",
    key("id", Text, "Id of the key; the part of a token that is no secret."),
    required("namespace", Text, "Namespace that the key gives access to."),
    required("name", Text, "Name for people."),
    required("scopes", Text, "JSON array of scopes, sorted."),
    optional("plan", Text, "Plan of the settings with its rate limits; NULL: no limits."),
    required("created_at_ms", BigInteger, "When it was created."),
    required("created_by", Text, "Who created it, as `author` in `changes`."),
    optional("expires_at_ms", BigInteger, "When it stops working; NULL: never."),
    optional("revoked_at_ms", BigInteger, "When it was revoked."),
    required("secret_hash", LargeBinary, "Hash of the secret."),
    optional("previous_hash", LargeBinary, "Hash of the secret before the last rotation."),
    optional("previous_until_ms", BigInteger, "Until when the previous secret works."),
    optional("rotated_at_ms", BigInteger, "When the secret was last rotated."),
    optional("last_used_at_ms", BigInteger, "When it was last used, to about a minute."),
    required("version", BigInteger, "Version of all keys at its last change."),
    Index("ix_api_keys_version", "version", "id"),  # processes read what changed
    Index("ix_api_keys_namespace", "namespace", "id"),
)

# Sessions of the console. One that ended is deleted; of its token only a hash is kept.
sessions: Final = table(
    "sessions",
    key("token_hash", LargeBinary, "Hash of what the browser keeps in its cookie."),
    required("key_id", Text, "Id of the API key that signed in."),
    required("created_at_ms", BigInteger, "When somebody signed in."),
    required("expires_at_ms", BigInteger, "When it ends, unless it is renewed before."),
    Index("ix_sessions_key_id", "key_id", "created_at_ms"),
    Index("ix_sessions_expires_at_ms", "expires_at_ms"),
)

# The history: who changed what, and when.
changes: Final = table(
    "changes",
    key("id", Text, "Id of the change."),
    required("namespace", Text, "Namespace of what was changed."),
    required("at_ms", BigInteger, "When it was changed."),
    required("author", Text, "Who changed it, such as `key:` with an id, or `command`."),
    required("action", Text, "What was done, such as `create` or `rotate`."),
    required("kind", Text, "What was changed, such as `meter` or `report`."),
    required("subject_id", Text, "Id of what was changed."),
    required("name", Text, "Its name after the change."),
    required("detail", Text, "What changed, in a few words; may be empty."),
    required("members", Text, "JSON: members that changed, before and after.", default="''"),
    Index("ix_changes_at_ms", "namespace", "at_ms", "id"),
    Index("ix_changes_subject_id", "namespace", "subject_id", "at_ms", "id"),
)

# What customers of the API say of their subjects. A deleted one is erased: it may be a person.
subjects: Final = table(
    "subjects",
    key("id", Text, "Id of the subject."),
    required("namespace", Text, "Namespace of the subject."),
    required("key", Text, "The `subject` of its events."),
    optional("display_name", Text, "Name for people."),
    optional("metadata", Text, "JSON object that the customer gave."),
    optional("current_period_start_ms", BigInteger, "Start of the current billing period."),
    optional("current_period_end_ms", BigInteger, "End of the current billing period."),
    optional("stripe_customer_id", Text, "Id of the customer in Stripe."),
    required("created_at_ms", BigInteger, "When it was first described."),
    required("updated_at_ms", BigInteger, "When it was last described."),
    Index("uq_subjects_key", "namespace", "key", unique=True),
)
