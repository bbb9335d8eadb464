"""The paper's tables and figures, and those beyond it: a small module each.

Each has a function `parts` from a `Study` to what stands in the report.
"""
