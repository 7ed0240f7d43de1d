"""Fuzzing of our own parsers and decisions: `python -m tests.fuzz [--target NAME] [--minutes M] [--seed N] [--keep]`.

Every target (`targets.py`) is a function of bytes that checks invariants, and gives back what kind of input it was.
Inputs are mutations of a kept corpus and, where an input has a shape, values that Hypothesis draws. An input is kept
where it reaches a line of `mcpproxy_py` that no other has reached, or is of a kind that no other was. That is guidance
by lines, with `sys.settrace`: it knows nothing of branches, of loops, or of what is written in C (`httptools`,
`pydantic_core`, `jsonschema_rs`, `json`, `re`).

The corpus is one file for each target, one input a line. `test_corpus.py` replays all of it in every run of the suite.
What broke an invariant is added to the corpus as it is found, so it is replayed from then on.
"""
