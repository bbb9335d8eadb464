"""The methods that MAN is compared with."""
