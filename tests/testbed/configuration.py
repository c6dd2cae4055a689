"""What a host finds in /etc, the users' homes of a site, and the ssh configuration of the operator."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from tests.testbed.hosts import BANNER, DOMAIN, GROUP, HOSTS, OPERATOR, ROOT_LOGIN, USERS, Host
from tests.testbed.place import BASE, FILES, NAME, REPOSITORY, RUN, put, sh

GPUS = 2
KEY = RUN / "ssh" / "id_ed25519"
CONDOR_FILES = {
    "10-ptb-common": ("condor-head", "condor-exec", "condor-submit"),
    "20-ptb-head": ("condor-head",),
    "25-ptb-submit": ("condor-submit",),
    "30-ptb-execute": ("condor-exec",),
}
SSHD = """HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd yes
UseDNS no
MaxStartups 100:30:200
# Tests of refused logins must not lock the tester out.
PerSourcePenalties no
"""


def operator_key() -> None:
    """Makes the key that opens the users' accounts."""
    _keypair(KEY, "operator@test")


def prepare(name: str, host: Host) -> Path:
    """Writes what is to be copied over a host's root at boot, and returns that folder."""
    tree = RUN / "hosts" / name / "tree"
    etc = tree / "etc"
    put(etc / "hostname", f"{name}.{DOMAIN}\n")
    put(etc / "hosts", _names(host))
    put(etc / "resolv.conf", "")
    put(etc / "motd", f'Welcome to {name}.\nMaintenance on Thursday. {{"not": "json"}}\n')
    put(etc / "profile.d/ptb.sh", "umask 022\n")
    _keypair(etc / "ssh/ssh_host_ed25519_key", f"root@{name}")
    sshd = SSHD + ("Banner /etc/issue.net\n" if name in BANNER else "")
    if name in BANNER:
        put(etc / "issue.net", "*** Authorised use only. This banner is in the way on purpose. ***\n")
    if name in ROOT_LOGIN:
        sshd += "PermitRootLogin prohibit-password\n"
        put(tree / "root/.ssh/authorized_keys", KEY.with_suffix(".pub").read_bytes(), 0o600)
        (tree / "root/.ssh").chmod(0o700)
        (tree / "root").chmod(0o700)
    put(etc / "ssh/sshd_config.d/ptb.conf", sshd)
    if host.condor:
        for config, roles in CONDOR_FILES.items():
            if set(roles) & set(host.roles):
                put(etc / f"condor/config.d/{config}.config", (FILES / f"{config}.config").read_bytes())
        put(etc / "condor/passwords.d/POOL", _secret("condor-pool", 64), 0o600)
        (etc / "condor/passwords.d").chmod(0o700)
        put(etc / "ptb-gpus", f"{GPUS}\n")
    if "munge" in host.roles:
        for config in ("slurm.conf", "gres.conf", "cgroup.conf"):
            put(etc / "slurm" / config, (FILES / config).read_bytes())
        put(etc / "munge/munge.key", _secret("munge", 1024), 0o400)
    return tree


def make_site(site: str) -> tuple[Path, Path]:
    """The site's /home and /shared, made once per testbed."""
    home, shared = (RUN / "sites" / site / name for name in ("home", "shared"))
    if shared.exists():
        return home, shared
    public = KEY.with_suffix(".pub").read_bytes()
    for name, user in USERS.items():
        own = home / name
        put(own / ".ssh/authorized_keys", public, 0o600)
        put(own / ".profile", '[ -n "$BASH_VERSION" ] && [ -f ~/.bashrc ] && . ~/.bashrc\n')
        put(own / ".bashrc", user.bashrc)
        (own / ".ssh").chmod(0o700)
        for path in (own, *own.rglob("*")):
            os.chown(path, user.uid, GROUP, follow_symlinks=False)
    shared.mkdir(parents=True)
    shared.chmod(0o1777)
    return home, shared


def ssh_configuration() -> None:
    """known_hosts; `config` for the operator's namespace; `config-proxy` for anywhere on this machine."""
    entries = ""
    for name, host in HOSTS.items():
        public = RUN / "hosts" / name / "tree/etc/ssh/ssh_host_ed25519_key.pub"
        if public.exists():
            entries += f"{host.ip},{name} {' '.join(public.read_text().split()[:2])}\n"
    put(RUN / "ssh/known_hosts", entries)
    common = (
        f"Host *\n  User alice\n  IdentityFile {KEY}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {RUN}/ssh/known_hosts\n  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n  ConnectTimeout 10\n  LogLevel ERROR\n"
    )
    which = f"PYTHONPATH={REPOSITORY} PTB_TESTBED_DIR={BASE} PTB_TESTBED_NAME={NAME}"
    carrier = f"env {which} {os.path.realpath(sys.executable)} -m tests.testbed nc %h %p"
    for file, way in (("config", ""), ("config-proxy", f"  ProxyCommand {carrier}\n")):
        text = ""
        for name, host in HOSTS.items():
            jump = f"  ProxyJump {host.via}\n" if host.via != "op" else way
            text += f"Host {name} {host.ip}\n  HostName {host.ip}\n{jump}"
        put(RUN / "ssh" / file, text + common)


def _names(host: Host) -> str:
    """/etc/hosts: the names a host can reach, itself included."""
    inner = host.via != "op" or host.second is not None
    lines = ["127.0.0.1 localhost"]
    if host.via == "op":
        lines.append(f"{OPERATOR} op.{DOMAIN} op")
    for name, other in HOSTS.items():
        if other.via == "op" and host.via == "op":
            lines.append(f"{other.ip} {name}.{DOMAIN} {name}")
        elif inner and (other.via != "op" or other.second):
            lines.append(f"{other.second or other.ip} {name}.{DOMAIN} {name}")
    return "\n".join(lines) + "\n"


def _keypair(path: Path, comment: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def _secret(name: str, size: int) -> bytes:
    path = RUN / "secrets" / name
    if not path.exists():
        put(path, secrets.token_bytes(size), 0o600)
    return path.read_bytes()
