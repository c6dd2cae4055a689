"""What every run of the tests prints and demands: minutes by marker, and markers that must not be skipped."""

from __future__ import annotations

import os
import signal
from collections import defaultdict

import pytest

MARKERS = (
    "apptainer",
    "bubblewrap",
    "chaos",
    "condor",
    "demo",
    "hostile",
    "realcli",
    "slurm",
    "ssh",
    "testbed",
    "vllm",
)


class Minutes:
    """Sums the time of each marker's tests and how many of them really ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.ran: dict[str, int] = defaultdict(int)
        self.skipped: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marks = dict(report.user_properties).get("markers")
        names = [str(mark) for mark in marks] if isinstance(marks, list) and marks else ["unmarked"]
        for name in names:
            self.seconds[name] += report.duration
            if report.when == "call" and not report.skipped:
                self.ran[name] += 1
            self.skipped[name] += int(report.skipped)

    def missing(self) -> list[str]:
        """Markers named in PTB_REQUIRE of which no test ran, or some were skipped."""
        wanted = os.environ.get("PTB_REQUIRE", "").split()
        return [name for name in wanted if not self.ran[name]]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # ignored in a shell's background, and inherited
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Minutes(), "minutes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # a report's keywords name its folders too, one of which is called like a marker
        item.user_properties.append(("markers", [name for name in MARKERS if item.get_closest_marker(name)]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    minutes = terminalreporter.config.pluginmanager.get_plugin("minutes")
    if minutes is None:
        return
    terminalreporter.section("minutes by marker")
    for name in sorted(minutes.seconds):
        words = f"{name:12} {minutes.seconds[name] / 60:6.2f} min  {minutes.ran[name]} tests ran"
        terminalreporter.write_line(words + (f", {minutes.skipped[name]} skipped" if minutes.skipped[name] else ""))
    for name in minutes.missing():
        terminalreporter.write_line(f"no test of marker {name} ran, but PTB_REQUIRE names it", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    minutes = session.config.pluginmanager.get_plugin("minutes")
    if minutes is not None and exitstatus == 0 and not session.config.option.collectonly and minutes.missing():
        session.exitstatus = 1
