"""The agent's prompt: a template of the content, the sections that it names, and facts of the run (H §1.4, E §2.3).

A template (`tasks/prompts/NAME.md`) is text with a few marks, each understood in one pass:

    {name}                       a value of the run (VALUES), else the section `tasks/prompts/sections/name.md`
    {{name}}                     the text {name} itself
    {if fact and not fact}       lines up to {end} that are there when the facts hold (FACTS)
    {part name}                  lines up to {end} that a protocol may leave out (`prompt_without`)
    #. text                      a rule; rules are counted from 1 below each heading

What is filled in is never read again. A mark that means nothing is an error that names it and the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol
from ptb_tui.content.reading import known_as
from ptb_tui.content.tasks import Task
from ptb_tui.core import clock, names
from ptb_tui.core.errors import ContentError
from ptb_tui.core.spec import RunSpec

PROMPTS = "tasks/prompts"
SECTIONS = f"{PROMPTS}/sections"
VARIABLE = "POST_TRAIN_BENCH_PROMPT"  # names another prompt than the protocol's, for smoke tests (E §2.2)
CLOSING = "agent_note"  # the section that ends every prompt (E §2.3, item 8)
VALUES = ("model", "benchmark", "num_hours", "gpus", "gpu_kind", "grading_keys", "datetime")
FACTS = ("test_data", "inspect", "no_gpu", "one_gpu", "several_gpus", "one_key", "several_keys", "claude")
_MARK = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}|\{([a-z][a-z0-9_]*)\}")
_BLOCK = re.compile(r"[ \t]*\{(if|part) +([a-z0-9_ ]+?)\}[ \t]*|[ \t]*\{(end)\}[ \t]*")
_ALONE = re.compile(r"(?<!\{)\{(?:(?:if|part) [^{}]*|end)\}(?!\})")  # what is only understood alone in its line
_RULE = re.compile(r"(?m)^(?:(#{1,6} )|(#\. ))")


@dataclass(frozen=True, slots=True)
class Text:
    """A template or section: its words, and the file that errors name."""

    words: str
    file: str


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """Everything of a run that a prompt depends on. `hours` is written shortest; `test_data`: the agent gets the
    checker with a copy of the test items."""

    agent: str
    base_model: str
    benchmark: str
    hours: str
    gpus: int
    inspect: bool
    test_data: bool
    gpu_kind: str = "Nvidia H100"
    grading_keys: tuple[str, ...] = ()
    datetime: str = ""

    def values(self) -> dict[str, str]:
        """What stands in the place of each of VALUES."""
        keys = " and ".join(f"`{key}`" for key in self.grading_keys)
        found = (self.base_model, self.benchmark, self.hours, str(self.gpus), self.gpu_kind, keys, self.datetime)
        return dict(zip(VALUES, found, strict=True))

    def holding(self) -> frozenset[str]:
        """Those of FACTS that hold."""
        keys = len(self.grading_keys)
        hold = (
            *(self.test_data, self.inspect, self.gpus == 0, self.gpus == 1, self.gpus > 1, keys == 1, keys > 1),
            "claude" in self.agent,
        )
        return frozenset(fact for fact, holds in zip(FACTS, hold, strict=True) if holds)


def _holds(condition: str, facts: PromptFacts, where: str) -> bool:
    hold, result = facts.holding(), True
    for word in condition.split(" and "):
        name = word.strip().removeprefix("not ").strip()
        if name not in FACTS:
            raise ContentError(f"{where}: {{if {condition}}}: no fact {name!r}", hint=f"known: {', '.join(FACTS)}")
        result &= (name in hold) != word.strip().startswith("not ")
    return result


def _blocks(text: Text, facts: PromptFacts, without: Collection[str]) -> tuple[str, set[str]]:
    """The lines that are there, and the names of all parts."""
    kept, shown, parts = [], [True], set()
    for number, line in enumerate(text.words.splitlines(), 1):
        where, found = f"{text.file}: line {number}", _BLOCK.fullmatch(line)
        if found is None:
            if shown[-1]:
                kept.append(line)
        elif found[3]:
            if len(shown) == 1:
                raise ContentError(f"{where}: {{end}} ends nothing")
            shown.pop()
        elif found[1] == "if":
            shown.append(_holds(found[2], facts, where) and shown[-1])
        else:
            parts.add(found[2])
            shown.append(found[2] not in without and shown[-1])
    if len(shown) > 1:
        raise ContentError(f"{text.file}: {{if …}} or {{part …}} without {{end}}")
    return "\n".join(kept), parts


def _with_sections(words: str, sections: Mapping[str, Text], facts: PromptFacts) -> str:
    """A section stands in the place of its name; a line that is nothing but an empty one is not there."""
    lines = []
    for line in words.splitlines():
        filled = _MARK.sub(
            lambda found: (
                found[0]
                if found[2] is None or found[2] not in sections
                else _blocks(sections[found[2]], facts, ())[0].strip("\n")
            ),
            line,
        )
        if filled or not line:
            lines.append(filled)
    return "\n".join(lines)


def _numbered(words: str) -> str:
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count = 0 if found[1] else count + 1
        return found[1] or f"{count}. "

    return _RULE.sub(number, words)


def _check(text: Text, sections: Mapping[str, Text]) -> None:
    for number, line in enumerate(text.words.splitlines(), 1):
        if _BLOCK.fullmatch(line):
            continue
        if found := _ALONE.search(line):
            hint = "{if …}, {part …} and {end} stand alone in their line, facts and parts in small letters"
            raise ContentError(f"{text.file}: line {number}: {found[0]} is not understood here", hint=hint)
        for found in _MARK.finditer(line):
            if found[2] is not None and found[2] not in VALUES and found[2] not in sections:
                known = ", ".join((*VALUES, *sections))
                raise ContentError(
                    f"{text.file}: line {number}: nothing fills {{{found[2]}}}",
                    hint=f"known: {known}; {{{{{found[2]}}}}} is the text itself",
                )


def compose(template: Text, sections: Mapping[str, Text], facts: PromptFacts, without: Collection[str] = ()) -> str:
    """The prompt. Pure; the same for the same arguments. ContentError names file and mark.

    `without` names parts to be left out; one that a template with parts does not have is an error.
    """
    _check(template, sections)
    for section in sections.values():
        _check(section, {})
    words, parts = _blocks(template, facts, without)
    if parts and (unknown := sorted(set(without) - parts)):
        raise ContentError(f"{template.file}: no {{part {unknown[0]}}}", hint=f"its parts: {', '.join(sorted(parts))}")
    if CLOSING in sections and f"{{{CLOSING}}}" not in words:
        words += f"\n\n{{{CLOSING}}}"
    words = _numbered(_with_sections(words, sections, facts))
    words = re.sub(r"\n{3,}", "\n\n", words).strip("\n") + "\n"
    values = facts.values()
    return _MARK.sub(lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], words)


def is_mock(name: str) -> bool:
    """Whether a prompt of this name tells agents and judges to do nothing (E §2.3)."""
    return "mock" in name


def prompt_file(protocol: Protocol, word: str = "") -> str:
    """The file of a prompt below `tasks/prompts`. `word` is a run's own (`RunSpec.prompt`), or what VARIABLE says:
    a name with or without ending; empty and the original's `prompt` mean the protocol's."""
    name = word.removesuffix(".txt").removesuffix(".md")
    return protocol.prompt if name in ("", "prompt") else f"{name}.md"


def named_prompt(content: Content, protocol: Protocol, values: Mapping[str, str]) -> str:
    """What VARIABLE among the settings says about the prompt, as `RunSpec.prompt` has it: empty for the protocol's.
    ContentError for one that is not there."""
    word = values.get(VARIABLE, "").strip()
    file = prompt_file(protocol, word)
    if file == protocol.prompt:
        return ""
    if "/" in file or content.file(f"{PROMPTS}/{file}") is None:
        known = sorted({path.stem for base in content.paths for path in (base / PROMPTS).glob("*.md")})
        raise ContentError(f"{VARIABLE}: no prompt {word!r}", hint=f"known: {', '.join(known)}")
    return file


def _read(path: Path) -> Text:
    try:
        return Text(path.read_text("utf-8"), known_as(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"{known_as(path)}: cannot be read as UTF-8 text: {error}") from error


def sections_of(content: Content) -> dict[str, Text]:
    """All sections, by name."""
    return {
        name.removesuffix(".md"): _read(path)
        for name, path in content.overlay(SECTIONS).items()
        if name.endswith(".md") and "/" not in name
    }


def facts_of(spec: RunSpec, task: Task, protocol: Protocol) -> PromptFacts:
    """What a run's prompt depends on."""
    return PromptFacts(
        agent=spec.agent,
        base_model=spec.base_model,
        benchmark=task.label,
        hours=names.format_hours(spec.hours),
        gpus=spec.gpus,
        inspect=task.file.inspect,
        test_data=task.checked(protocol.kit),
        gpu_kind=protocol.gpu_kind,
        grading_keys=task.info.required_api_keys,
        datetime=clock.utc_text(),
    )


def prompt_of(content: Content, spec: RunSpec, task: Task, protocol: Protocol) -> str:
    """The prompt that the agent of this run gets. ContentError for a template that is missing or not understood."""
    relative = f"{PROMPTS}/{prompt_file(protocol, spec.prompt)}"
    path = content.file(relative)
    if path is None:
        raise ContentError(f"no {relative} in {' or '.join(str(path) for path in content.paths)}")
    without = () if spec.prompt else protocol.prompt_without
    return compose(_read(path), sections_of(content), facts_of(spec, task, protocol), without)


def judge_prompt(content: Content, spec: RunSpec, own: Path, protocol: Protocol) -> Path:
    """The template of a judge's prompt: the judge's own, or for runs with a mock prompt the one that asks nothing."""
    if not is_mock(prompt_file(protocol, spec.prompt)):
        return own
    return content.file(f"{PROMPTS}/mock_judge.md") or own
