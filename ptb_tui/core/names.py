"""The grammar of directory names, both ways: method and run directories (H §1.2, E §5.7). Standard library alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

_UNSAFE = re.compile(r"[/:\[\]]")
_RUN = re.compile(r"([^_]+)_([^_]+(?:_[^_]+)*)_(0|[1-9][0-9]{0,17})")
_HOURS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# The hours end a word where possible ("…_10h_run1"); only then may an experiment follow without an underscore.
_TAILS = (
    re.compile(
        r"(?P<config>.+?)_(?P<hours>[0-9]+(?:\.[0-9]+)?)h(?:_(?P<gpus>[2-9]|[1-9][0-9]+)gpu)?(?P<rest>(?:_.*)?)"
    ),
    re.compile(r"(?P<config>.+?)_(?P<hours>[0-9]+(?:\.[0-9]+)?)h(?:_(?P<gpus>[2-9]|[1-9][0-9]+)gpu)?(?P<rest>.*)"),
)


def safe(name: str) -> str:
    """A model id or an agent config as it appears in a directory name: each of `/ : [ ]` becomes `_`."""
    return _UNSAFE.sub("_", name)


def format_hours(hours: float) -> str:
    """Hours printed shortest, without exponent and trailing zeros: 10 → "10", 0.05 → "0.05"."""
    text = format(Decimal(repr(float(hours))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_hours(text: str) -> float:
    """Hours of a directory name or command line ("10", "0.5"). ValueError unless it is a plain number above zero."""
    if not _HOURS.fullmatch(text):
        raise ValueError(f"hours must be a plain number such as 10 or 0.5, not {text!r}")
    try:
        value = float(Decimal(text))
    except InvalidOperation as error:  # pragma: no cover - the pattern admits only numbers
        raise ValueError(str(error)) from error
    if value <= 0:
        raise ValueError(f"hours must be above zero, not {text!r}")
    return value


@dataclass(frozen=True, slots=True)
class MethodName:
    """One method directory. `config` is in its safe form, `hours` as written, so that rendering is exact."""

    agent: str
    config: str
    hours: str
    gpus: int = 1
    experiment: str = ""

    def render(self) -> str:
        """The directory name."""
        gpus = f"_{self.gpus}gpu" if self.gpus > 1 else ""
        return f"{self.agent}_{self.config}_{self.hours}h{gpus}{self.experiment}"


def method_name(agent: str, config: str, hours: float, gpus: int, experiment: str) -> str:
    """The method directory of a run (H §1.2); the experiment suffix is appended raw."""
    return MethodName(agent, safe(config), format_hours(hours), max(1, gpus), experiment).render()


def parse_method(name: str, known_agents: Iterable[str]) -> MethodName | None:
    """Read a method directory name; None when it is not one.

    The agent is the longest known agent folder that begins the name; the rest up to the hours is the config. Without a
    known agent it is the text before the first underscore.
    """
    known = [agent for agent in known_agents if name.startswith(agent + "_")]
    agent = max(known, key=len) if known else name.partition("_")[0]
    rest = name[len(agent) + 1 :]
    for pattern in _TAILS:
        if match := pattern.fullmatch(rest):
            return MethodName(agent, match["config"], match["hours"], int(match["gpus"] or 1), match["rest"] or "")
    return None


@dataclass(frozen=True, slots=True)
class RunName:
    """One run directory: `<benchmark>_<org>_<model>_<id>`. Other tools stumble over one that is not `regular`."""

    benchmark: str
    model: str  # safe form: "Qwen_Qwen3-4B-Base"
    run_id: int
    regular: bool = True

    def render(self) -> str:
        """The directory name."""
        return f"{self.benchmark}_{self.model}_{self.run_id}"

    @property
    def short_model(self) -> str:
        """The model without its organisation, as baselines and score tables name it."""
        return self.model.partition("_")[2] or self.model


def run_name(benchmark: str, base_model: str, run_id: int) -> str:
    """The run directory of a run (H §1.2)."""
    return RunName(benchmark, safe(base_model), run_id).render()


def parse_run(name: str) -> RunName | None:
    """Read a run directory name; None when it has no benchmark, model and number."""
    if (match := _RUN.fullmatch(name)) is None:
        return None
    benchmark, model, number = match.groups()
    return RunName(benchmark, model, int(number), regular=model.count("_") == 1)
