"""Recommendations in anonymous browsing sessions that learn from every click."""

__version__ = "0.1.0"
