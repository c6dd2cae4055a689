"""What is cut from a generated answer before it is graded: reasoning, and endless repetition (E §1.5.6)."""

import re
from typing import List

MOST = 5
_ROUNDS = 10
_LONGEST_BLOCK = 29
_LENGTHS = ((3, 30), (30, 60), (60, 120), (120, 250), (250, 500))
_REPEATS = [re.compile(r"(.{%d,%d}?)\1{%d,}" % (low, high, MOST), re.DOTALL) for low, high in _LENGTHS]


def without_thinking(text: str) -> str:
    """The answer after its reasoning, where it begins with a reasoning block that is closed."""
    if text.startswith("<think>") and "</think>" in text:
        return text.partition("</think>")[2]
    return text


def _same_lines(lines: List[str]) -> List[str]:
    out: List[str] = []
    run = 0
    for number, line in enumerate(lines):
        run = run + 1 if number and line == lines[number - 1] else 1
        if run <= MOST:
            out.append(line)
    return out


def _blocks(lines: List[str], size: int) -> List[str]:
    """Cut repeats of blocks of `size` lines; what is left of a repeat at the very end goes, too."""
    out: List[str] = []
    place = 0
    while place < len(lines):
        block, end = lines[place : place + size], place + size
        while len(block) == size and lines[end : end + size] == block:
            end += size
        if (end - place) // size <= MOST:
            out.append(lines[place])
            place += 1
            continue
        out += block * MOST
        rest = lines[end:]
        place = len(lines) if len(rest) < size and rest == block[: len(rest)] else end
    return out


def limited(text: str) -> str:
    """The text with nothing more than five times in a row: lines, blocks of lines, pieces of 3 to 500 characters."""
    for _ in range(_ROUNDS):
        lines = _same_lines(text.split("\n"))
        for size in range(2, min(_LONGEST_BLOCK, len(lines) // MOST) + 1):
            lines = _blocks(lines, size)
        now = "\n".join(lines)
        for pattern in _REPEATS:
            now = pattern.sub(lambda found: found.group(1) * MOST, now)
        if now == text:
            break
        text = now
    return text


def answer_of(text: str) -> str:
    """What is graded of a generated text."""
    return limited(without_thinking(text))
