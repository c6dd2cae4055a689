"""The hosts and users of the testbed, as data: names, addresses, what runs where and what is not installed where."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.testbed.place import Problem

DOMAIN = "ptb.test"
OPERATOR = "10.77.0.1"  # the bridge's address, where tests and consoles are


@dataclass(frozen=True)
class Host:
    """`roles`: services that run. `hide`: schedulers in the shared root that this host must not show.

    `site`: hosts of one site share /home and /shared. `needs`: hosts brought up with it. `second`: an address on the
    inner network, which the operator does not reach; a host whose `ip` is there is seen from `via` alone.
    """

    ip: str
    roles: tuple[str, ...]
    hide: tuple[str, ...]
    site: str
    needs: tuple[str, ...] = ()
    via: str = "op"
    second: str | None = None

    @property
    def condor(self) -> bool:
        """Whether any daemon of HTCondor runs here."""
        return any(role.startswith("condor") for role in self.roles)

    @property
    def slurm_node(self) -> bool:
        """Whether jobs of Slurm run here."""
        return "slurmd" in self.roles

    @property
    def bridge(self) -> str:
        """The bridge that the first network card is plugged into."""
        return "br0" if self.via == "op" else "br1"


HOSTS: dict[str, Host] = {
    "head": Host("10.77.0.2", ("sshd", "condor-head", "condor-exec"), ("slurm",), "cluster"),
    "node1": Host("10.77.0.3", ("sshd", "condor-exec"), ("slurm",), "cluster", needs=("head",)),
    "ws": Host("10.77.0.4", ("sshd",), ("condor", "slurm"), "ws"),
    "slurm": Host("10.77.0.5", ("sshd", "munge", "slurmctld", "slurmd"), ("condor",), "cluster"),
    # Two login hosts, two schedds, one shared folder; this one can submit to Slurm too.
    "head2": Host("10.77.0.6", ("sshd", "munge", "slurm-client", "condor-submit"), (), "cluster", needs=("head",)),
    "slurm2": Host("10.77.0.7", ("sshd", "munge", "slurmd"), ("condor",), "cluster", needs=("slurm",)),
    "jump": Host("10.77.0.8", ("sshd",), ("condor", "slurm"), "jump", second="10.78.0.1"),
    "far": Host("10.78.0.2", ("sshd",), ("condor", "slurm"), "far", needs=("jump",), via="jump"),
}
DEFAULT = ("head", "ws")
ROOT_LOGIN = ("ws",)  # hosts whose root logs in with the operator's key
BANNER = ("ws",)


@dataclass(frozen=True)
class User:
    """A user of every host: the operator's key opens the account."""

    uid: int
    bashrc: str = field(default="", repr=False)
    tmpfs_home: bool = False  # lost when the host goes down


NOISE = 'echo "Welcome back, $USER! {}[]"\necho "a warning from .bashrc" >&2\n'
USERS: dict[str, User] = {
    "alice": User(2001),
    "bob": User(2002),
    "noisy": User(2003, bashrc=NOISE),
    "fleeting": User(2004, tmpfs_home=True),
}
GROUP = 100  # Debian's `users`


def known(name: str) -> Host:
    """The host of this name; Problem lists the names when there is none."""
    if name not in HOSTS:
        raise Problem(f"no such host: {name} (there are {', '.join(HOSTS)})")
    return HOSTS[name]


def with_needs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The named hosts and what they need, needed ones first."""
    ordered: dict[str, None] = {}
    for name in names:
        for one in (*with_needs(known(name).needs), name):
            ordered[one] = None
    return tuple(ordered)
