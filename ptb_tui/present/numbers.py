"""Numbers as people read them: time, time left, scores, money, sizes, counts. Pure; unknown is "–", never zero."""

from __future__ import annotations

import math

UNKNOWN = "–"


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def duration(seconds: float | None) -> str:
    """Seconds as "42s", "5m 48s" or "1h 02m"; below zero is "0s"."""
    known = _known(seconds)
    if known is None:
        return UNKNOWN
    whole = max(0, int(known))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def left(seconds: float | None) -> str:
    """Seconds that remain as "5m 48s left"; past the limit "over by 12s"; empty when there is no limit."""
    known = _known(seconds)
    if known is None:
        return ""
    return f"{duration(known)} left" if known >= 0 else f"over by {duration(-known)}"


def score(value: float | None) -> str:
    """A share of one as "82.5 %"."""
    known = _known(value)
    return UNKNOWN if known is None else f"{known * 100:.1f} %"


def score_error(value: float | None, stderr: float | None) -> str:
    """A share of one with its standard error, as "82.5 ± 1.3 %"."""
    error = _known(stderr)
    if _known(value) is None or error is None:
        return score(value)
    return f"{score(value)[:-2]} ± {error * 100:.1f} %"


def money(usd: float | None) -> str:
    """Dollars as "$12.30"; "unknown" when nobody knows, which is not zero."""
    known = _known(usd)
    if known is None:
        return "unknown"
    return f"${known:,.2f}" if abs(known) >= 0.005 or known == 0 else "<$0.01"


def size(count: int | None) -> str:
    """Bytes as "812 B", "1.2 kB", "3.4 GB" (powers of 1000)."""
    if count is None:
        return UNKNOWN
    if abs(count) < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if abs(value) < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} PB"


def plain(value: float) -> str:
    """A number without needless zeros: 10.0 → "10", 0.25 → "0.25"; at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def gpu_hours(value: float) -> str:
    """GPU hours of a plan."""
    return f"{plain(value)} GPU {'hour' if value == 1 else 'hours'}"


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 run", "3 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
