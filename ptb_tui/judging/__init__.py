"""Judging: what a judge said, the history of verdicts, and the engines that judge (E §3, §4)."""
