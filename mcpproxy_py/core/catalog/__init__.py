"""The capability catalog, pure: what agents can do, what this gateway reaches, what is only known (SPEC 5.1)."""
