"""Who may do what, as it is configured."""
