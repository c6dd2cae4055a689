"""One place that runs things: this machine, or the same at the far end of two byte streams (design §2.4)."""
