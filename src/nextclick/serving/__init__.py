"""A service that learns from every click, and loses none."""
