"""Why user namespaces are refused here, in the words an administrator needs."""

from __future__ import annotations

from pathlib import Path

_SWITCHES = (  # file below /proc/sys, value that refuses, value that allows
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user/max_user_namespaces", "0", "15000"),
)


def advice(said: str, sys: Path = Path("/proc/sys")) -> str:
    """A clause for the end of a message, from the kernel's switches and what the runtime said; "" when none fits."""
    for name, refusing, allowing in _SWITCHES:
        try:
            value = (sys / name).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
        if value == refusing:
            return f"; user namespaces are refused here: sysctl -w {name.replace('/', '.')}={allowing}"
    lowered = said.lower()
    if "mount proc" in lowered:
        return "; this machine is itself a container that hides parts of /proc: start it with a plain /proc"
    if "namespace" in lowered or "uid map" in lowered or "not permitted" in lowered:
        return "; namespaces are refused here, as containers without extra rights do"
    return ""
