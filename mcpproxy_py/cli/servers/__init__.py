"""What `mcpproxy upstream` is made of: entries from flags and from the catalog, where they are written, and what comes
of them."""
