"""What Alembic runs: every migration on the one connection, in the one transaction, that `migrate` opened."""

from __future__ import annotations

from alembic import context

from mcpproxy_py.store.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
