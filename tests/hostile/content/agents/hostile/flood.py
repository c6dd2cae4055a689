"""A trace of 200 MB."""

import os

line = b"line %09d " + b"of an agent that says the same thing over and over again " * 7
for number in range(0, 500_000, 1000):
    os.write(1, b"".join(line % index + b"\n" for index in range(number, number + 1000)))
os.write(1, b"did flood\n")
