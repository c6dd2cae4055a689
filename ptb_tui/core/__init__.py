"""The vocabulary of the product. Imports nothing above it; what the supervisor needs is standard library alone."""
