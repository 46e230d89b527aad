"""The table of erasures: subjects whose name and payloads are removed on request."""

from typing import Final

from sqlalchemy import BigInteger, Index, Integer, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

# Erasures. The subject is forgotten when its erasure is done; the pseudonym stays.
erasures: Final = table(
    "erasures",
    key("id", Text, "Id of the erasure."),
    required("namespace", Text, "Namespace of the subject."),
    optional("subject", Text, "The subject; NULL once it is done."),
    required("pseudonym", Text, "Subject that its usage is kept under."),
    required("state", Text, "An `ErasureState`, such as `copying` or `done`."),
    required("asked_at_ms", BigInteger, "When it was requested."),
    required("log", Integer, "Number of the log that the borders are of; 0: none are known yet."),
    required("firsts", Text, "JSON object: by partition, the ends of the erasure before."),
    required("ends", Text, "JSON object: by partition, the offset that it ends before."),
    optional("log_until_ms", BigInteger, "About when the log has dropped it; NULL: not known yet."),
    optional("settled_at_ms", BigInteger, "Since when only the log has something of it."),
    optional("done_at_ms", BigInteger, "When it was done."),
    Index("ix_erasures_namespace", "namespace", "id"),
    Index("ix_erasures_state", "state"),
)
