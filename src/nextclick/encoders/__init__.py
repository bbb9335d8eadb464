"""Neural networks that turn a context into a representation and score the catalog."""
