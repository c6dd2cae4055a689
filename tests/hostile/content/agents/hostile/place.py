"""Where this is done; the test writes what it knows over these values."""

BASE = "/nonexistent"
PORT = 9
