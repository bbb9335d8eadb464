"""Prequential evaluation: test, then learn."""
