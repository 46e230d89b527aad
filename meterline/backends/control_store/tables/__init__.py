"""The tables of the control store, all on one metadata.

In all of them:

- `..._ms` is an instant in unix milliseconds, or a length in milliseconds.
- An id is a ULID, unless its meaning says otherwise; `namespace` is the owner of a row.
- A log is named by its number in `logs`, a record by log, partition and offset.
- Secrets are sealed with the `secret_key` of the settings, or kept as hashes.

`migrations/` makes these tables. A test compares the two on SQLite and PostgreSQL.
"""
