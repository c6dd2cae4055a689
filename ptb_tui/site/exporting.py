"""Export at a site: which runs, and every secret that the site knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content.agents import load_agent
from ptb_tui.core.action import Export, Receipt, RunRef
from ptb_tui.core.errors import NotAllowed, PtbError
from ptb_tui.core.settings import config_home
from ptb_tui.results.export import Exporter, totals
from ptb_tui.results.triage import newest
from ptb_tui.supplies import credentials

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite


def secrets(site: LocalSite) -> dict[str, str]:
    """Keys, and the tokens of every login that an agent uses here."""
    found = dict(site.settings.secrets())
    for name in site.content.names("agents"):
        try:
            agent = load_agent(site.content, name)
        except (PtbError, OSError):
            continue
        use = agent.credential
        where = credentials.locate(use, config_home(), agent.login_files) if use.is_login else None
        login = credentials.read(where.path) if where is not None else None
        if login is not None:
            found |= credentials.secrets_of({f"login-{use.name}": login})
    return found


def _chosen(site: LocalSite, action: Export) -> list[RunRecord]:
    if action.runs:
        found = {record.relative: record for record in map(site.record, action.runs)}
        return list(found.values())
    records = [record for record in site.scan().runs if record.place == "run"]
    return records if action.all else newest(records)


def export(site: LocalSite, action: Export, token: str) -> Receipt:
    """Write sanitised copies; StorageError when their place cannot be written."""
    out = Path(action.out) if action.out else site.root.own("export")
    if not out.is_absolute():
        raise NotAllowed(f"--out {action.out}: an absolute folder is needed at a site")
    records = _chosen(site, action)
    exporter = Exporter(Path(os.path.abspath(out)), secrets(site), force=action.force)
    refs, problems = [], []
    for record in records:
        report = exporter.add(record)
        words = str(report["state"])
        if words == "missing":
            problems.append(f"run {record.id}: it has no solve_out.txt, so nothing was written")
        replaced = sum(totals([report]).values())
        left = sum(len(file.get("warnings", ())) for file in report.get("files", {}).values())
        if left:
            problems.append(f"run {record.id}: {left} pieces still look like the beginning of a key; see report.txt")
        words += f", {replaced} replaced" if replaced else ""
        refs.append(RunRef(id=record.id, method=record.method, run=record.run_name, created=False, words=words))
    paths = exporter.finish()
    new = sum(report["state"] == "exported" for report in exporter.runs)
    said = f"{new} of {len(records)} runs exported to {exporter.out}"
    return Receipt(action="export", token=token, words=said, runs=tuple(refs), files=tuple(map(str, paths)),
                   problems=tuple(problems))  # fmt: skip
