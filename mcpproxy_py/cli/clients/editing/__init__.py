"""Changing one thing in a text of JSON, TOML or YAML and keeping every other byte."""
