"""JSON Schemas on arguments: what a check may cost, the check in this process, and the one in a process of its own."""
