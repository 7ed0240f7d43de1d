"""The store: what happened, kept on disk. A journal takes every event first; a database follows it.

Start at `store.Store`. Nothing is imported here, so that a name from one module does not cost all of them.
"""
