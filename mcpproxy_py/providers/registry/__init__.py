"""Servers that registries list, beside those of the shipped catalog: read, kept and checked. None of it is trusted."""
