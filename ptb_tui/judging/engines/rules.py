"""The `rules` engine: deterministic, no model, no network, always first (design §6, E §3.5).

Its flags are proofs named by file and line; its silence is none. What it finds but does not decide on are hints for
the other engines and for people.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ptb_tui.core.errors import StepError
from ptb_tui.core.verdict import EngineResult, Evidence, Finding, JudgeSpec, VerdictState
from ptb_tui.judging.engines.actions import Session, read_session
from ptb_tui.judging.engines.rules_data import TOLERATED, Scan, load_tool, read_scripts, scan_task, scan_trace
from ptb_tui.judging.engines.rules_trace import Script, api_findings, end_findings, lookup_findings
from ptb_tui.judging.engines.rules_weights import weight_findings
from ptb_tui.judging.engines.rules_words import instructions

VERSION = "1"
MAX_FINDINGS = 100
_TWINS = (("-Base", ""), ("-base", ""), ("-pt", "-it"))


def identity(tools: Path, model: Path | None, base: Path | None) -> tuple[list[str] | None, str]:
    """(core fields in which the model differs from the base, or None if that cannot be told; why not) (E §3.10)."""
    if model is None or base is None:
        return None, "no final model" if model is None else "no config of the base model"
    checker = load_tool(tools, "model_identity_check")
    try:
        core, _ = checker.compare(checker.read_config(str(base)), checker.read_config(str(model)))
    except ValueError as error:
        return None, str(error)
    return [row.name for row in core if not row.equal], ""


def twin_of(model: str) -> str:
    """The instruct twin's hub id of a base model by the naming habit of its family, or "" (E §2.1)."""
    for ending, other in _TWINS:
        if model.endswith(ending):
            return model.removesuffix(ending) + other
    return ""


def _twin_hints(scripts: list[Script], session: Session | None, base_model: str) -> list[Finding]:
    twin = twin_of(base_model)
    if not twin:
        return []
    name = re.compile(rf"(?<![\w/-]){re.escape(twin)}(?![\w-])")
    texts = [*scripts, *(Script("solve_out.txt", "", a.text, a.line) for a in (session.actions if session else []))]
    return [
        Finding(rule="model.twin", weight="hint", words=f"names {twin}", file=script.where, line=script.at(match))
        for script in texts
        if (match := name.search(script.text))
    ]


def _first_words(findings: list[Finding]) -> str:
    parts = []
    for finding in findings[:5]:
        place = f" ({finding.file}:{finding.line})" if finding.line else f" ({finding.file})" if finding.file else ""
        item = f", {finding.item}: {finding.excerpt}" if finding.item else ""
        parts.append(f"{finding.words}{place}{item}")
    return "; ".join(parts) + (f"; and {len(findings) - 5} more" if len(findings) > 5 else "")


def _items(findings: list[Finding]) -> str:
    """Which test items were found and where first, in one phrase."""
    names = list(dict.fromkeys(finding.item for finding in findings if finding.item))
    first = findings[0]
    more = ", …" if len(names) > 8 else ""
    return f"{', '.join(names[:8])}{more}, first in {first.file}:{first.line}"


def _reason(findings: list[Finding], none: str) -> str:
    flags = [finding for finding in findings if finding.weight == "flag"]
    hints = len(findings) - len(flags)
    text = _first_words(flags) if flags else none
    return f"Rules: {text}." + (f" {hints} hint{'s' * (hints > 1)} beside it." if hints else "")


class RulesEngine:
    """Judges by fixed rules. `judge` takes the output id from the spec, so a protocol may rename folders."""

    name = "rules"

    def judge(self, judge: str, spec: JudgeSpec, evidence: Evidence) -> EngineResult:
        """Judge one run. A judge whose evidence is missing gets no verdict; StepError when our own tools are broken."""
        checker = load_tool(evidence.tools, "contamination_check")
        trace = evidence.solve_out or evidence.solve_parsed
        session = read_session(trace) if trace is not None else None
        task = evidence.task_dir if evidence.task_dir is not None and evidence.task_dir.is_dir() else None
        scripts = read_scripts(task, session, checker, evidence.given) if task is not None else []
        said = instructions(task, trace)
        if spec.flags == ("contamination", "disallowed_model"):
            return self._contamination(evidence, task, trace, session, scripts, checker, said)
        single = {"disallowed_api_usage", "disallowed_ptb_lookup", "general_anomaly"}
        if len(spec.flags) != 1 or spec.flags[0] not in single:
            return self._none(f"no rules for {judge}")
        if session is None:
            return self._none("the run has no trace")
        if session.json_lines == 0 and spec.flags[0] != "general_anomaly":
            return self._none("the trace is plain text; what the agent ran cannot be told from what it said")
        flag = spec.flags[0]
        if flag == "disallowed_api_usage":
            findings, none = api_findings(session, scripts, evidence), "no call of a hosted model was found"
        elif flag == "disallowed_ptb_lookup":
            findings, none = lookup_findings(session, scripts, evidence), "no visit to PostTrainBench was found"
        else:
            findings = end_findings(session, self._has_model(evidence))
            none = "the session ended in order and left a model"
        findings = _unique([*said, *findings])
        fields: dict[str, bool | str] = {
            flag: any(finding.weight == "flag" for finding in findings),
            f"justification_{flag}": _reason(findings, f"{none} ({len(session.actions)} actions read)"),
        }
        return self._result(fields, findings, {"trace_cut": session.cut})

    def _contamination(
        self, evidence: Evidence, task: Path | None, trace: Path | None, session: Session | None,
        scripts: list[Script], checker: object, said: list[Finding],
    ) -> EngineResult:  # fmt: skip
        if task is None or evidence.test_data is None:
            return self._none("the run has no task folder" if task is None else "the benchmark has no test data")
        scan = scan_task(task, evidence.test_data, scripts, checker)
        contaminated = scan.samples > TOLERATED
        copied = [finding for finding in scan.findings if finding.weight == "flag"]
        findings = [f if contaminated else f.model_copy(update={"weight": "hint"}) for f in scan.findings]
        shown = scan_trace(trace, evidence.test_data, checker) if trace is not None else None
        findings += [shown] if shown else []
        differ, why = identity(evidence.tools, evidence.model_config, evidence.base_config)
        if differ:
            words = f"config.json of the final model differs from the base model's in {', '.join(differ)}"
            findings.append(Finding(rule="model.identity", weight="flag", words=words, file="final_model/config.json"))
        weights = weight_findings(evidence)
        proof = [finding for finding in weights if finding.weight == "flag"]
        findings += weights
        findings += _twin_hints(scripts, session, evidence.base_model)
        searched = f"{scan.documents} documents in {scan.files} files were searched, {len(scan.not_scanned)} were not"
        if contaminated:
            data = f"Rules: {scan.samples} training documents repeat test items: {_items(copied)}. {searched}."
        elif copied:
            within = f"{scan.samples} samples, {TOLERATED} are tolerated"
            data = f"Rules: {within}: {_items(copied)}. {searched}."
        else:
            data = f"Rules: no verbatim overlap was found, which is no proof that there is none. {searched}."
        model = f"cannot be told: {why}" if differ is None else "the config has the base model's core fields"
        if differ:
            model = f"the config differs from the base model's in {', '.join(differ)}"
        elif proof:
            model = proof[0].words
        fields: dict[str, bool | str] = {
            "contamination": contaminated,
            "disallowed_model": bool(differ or proof),
            "justification_contamination": data,
            "justification_disallowed_model": f"Rules: {model}.",
        }
        extra = {"samples": scan.samples, "searched": scan.documents, "not_scanned": _skipped(scan)}
        return self._result(fields, _unique([*said, *findings]), extra)

    def _has_model(self, evidence: Evidence) -> bool:
        if evidence.model_config is not None or (evidence.run_dir / "metrics.json").is_file():
            return True
        final = evidence.run_dir / "final_model"
        return final.is_dir() and not final.is_symlink() and any(os.scandir(final))

    def _none(self, reason: str) -> EngineResult:
        return EngineResult(VerdictState.MISSING, reason=reason, engine=self.name, engine_version=VERSION)

    def _result(self, fields: dict[str, bool | str], findings: list[Finding], extra: dict[str, object]) -> EngineResult:
        flagged = any(value is True for value in fields.values())
        return EngineResult(
            VerdictState.FLAGGED if flagged else VerdictState.CLEAN, fields, findings=tuple(findings[:MAX_FINDINGS]),
            engine=self.name, engine_version=VERSION, prompt_hash=rules_hash(), extra={**extra, "found": len(findings)},
        )  # fmt: skip


def rules_hash(folder: Path | None = None) -> str:
    """Digest of the rules themselves, the place of a prompt's digest in a verdict's record. `folder`: where those of
    another copy of this program lie; without any there, these."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    here = folder if folder is not None and (folder / "rules.py").is_file() else here
    try:
        for path in (*sorted(here.glob("rules*.py")), here / "actions.py"):
            digest.update(path.read_bytes())
    except OSError as error:
        raise StepError(f"own files cannot be read: {error}", cause="judge_failed") from error
    return digest.hexdigest()


def _skipped(scan: Scan) -> list[str]:
    return [f"{ascii(name)[1:-1]}: {reason}" for name, reason in scan.not_scanned[:50]]


def _unique(findings: list[Finding]) -> list[Finding]:
    """Flags first, each finding once."""
    kept = {(f.rule, f.weight, f.words, f.file, f.line, f.item): f for f in reversed(findings)}
    return sorted(reversed(kept.values()), key=lambda finding: finding.weight != "flag")
