"""Attacks on real processes, as somebody outside would make them: make test-hostile."""
