"""Who may do what, and who is believed, as it is configured."""
