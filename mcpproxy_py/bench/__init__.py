"""How well agents find and use the catalog's tools, measured (CAT-8). Used by the command line only."""
