"""Engines: each is one way to judge a finished run (design §6)."""
