"""What alembic runs: the migrations, on the connection and in the transaction that it is given."""

from alembic import context

from meterline.backends.control_store.tables.columns import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,  # for its names of keys and constraints
    render_as_batch=True,
)
context.run_migrations()
