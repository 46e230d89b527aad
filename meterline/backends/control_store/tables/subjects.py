"""The table of described subjects."""

from typing import Final

from sqlalchemy import BigInteger, Index, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

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
