"""The built-in upstream `catalog`: its data, its seven tools, and what checks the data."""
