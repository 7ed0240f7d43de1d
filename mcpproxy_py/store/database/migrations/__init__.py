"""Alembic's folder. `store.database.migrate` runs it; there is no alembic.ini and no command for it.

`head.sql` is what all of them make of an empty SQLite file; after adding one: `python -m tests.house.head_sql`."""
