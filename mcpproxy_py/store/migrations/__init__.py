"""Alembic's folder. `store.migrate` runs it; there is no alembic.ini and no command for it."""
