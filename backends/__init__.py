"""Schedulers behind one protocol (`ptb_tui.core.backend`); loaded by name or entry point, imported by nobody."""
