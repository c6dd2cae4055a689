"""How an agent or a judge proves to a provider who it is: `[credential]` of `agent.toml` and `judge.toml` (design §5).

The tables here are data about vendors, not secrets: where a login is renewed, and how a CLI is told to ask us instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TOKEN_URL = "POST_TRAIN_BENCH_TOKEN_URL_"  # with the family in capitals: a token endpoint other than the vendor's
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of a vendor's rotating login: the public id of its CLI, where it is renewed, the CLI's switches."""

    token_url: str
    client_id: str
    switches: tuple[str, ...]  # environment variables that send the CLI's renewals and revocations to another place


FAMILIES: Mapping[str, Family] = {
    "codex": Family(
        "https://auth.openai.com/oauth/token",
        "app_EMoamEEZ73f0CkXaXp7hrann",
        # An agent that logs out would else take the login away from every other run.
        ("CODEX_REFRESH_TOKEN_URL_OVERRIDE", "CODEX_REVOKE_TOKEN_URL_OVERRIDE"),
    )
}


class CredentialUse(BaseModel):
    """`[credential]`: which login a CLI uses, where it looks for it, and what may happen to it.

    `api_key`: nothing but the keys of `api_keys.json`. `static_token`: a file that is copied into the sandbox.
    `rotating`: the CLI renews it while it works; with `broker` the renewing token stays outside and our companion
    renews, with `exclusive` the whole login goes in, for one run at a time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["api_key", "static_token", "rotating"]
    renewal: Literal["", "broker", "exclusive"] = ""
    name: str = Field(default="", pattern=rf"{_NAME}|^$")  # of the login at a site
    family: str = ""  # key of FAMILIES, needed for a broker
    file: str = ""  # where the CLI looks for it, below its home
    found: str = ""  # its name beside solve.sh in the original's layout
    login: tuple[str, ...] = ()  # the vendor's command that obtains it

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if (self.kind == "rotating") != bool(self.renewal):
            raise ValueError("`renewal` (broker or exclusive) belongs to kind = rotating, and to nothing else")
        if self.kind == "api_key":
            return self
        if not self.name or not self.file or not self.found:
            raise ValueError("a login needs `name`, `file` and `found`")
        if self.file.startswith("/") or ".." in self.file.split("/") or "/" in self.found:
            raise ValueError("`file` is a path below the home, `found` a plain file name")
        if self.renewal == "broker" and self.family not in FAMILIES:
            raise ValueError(f"a broker needs a `family` that can be told to ask us: {', '.join(FAMILIES)}")
        return self

    @property
    def is_login(self) -> bool:
        """Whether a file is needed, and not only keys."""
        return self.kind != "api_key"

    @property
    def exclusive(self) -> bool:
        """Whether one run at a time may use it."""
        return self.renewal == "exclusive"

    @property
    def words(self) -> str:
        """The kind as people write it."""
        return f"{self.kind}({self.renewal})" if self.renewal else self.kind


API_KEY = CredentialUse(kind="api_key")
CODEX_JUDGE = CredentialUse(
    kind="rotating",
    renewal="broker",
    name="codex-judge",
    family="codex",
    file=".codex/auth.json",
    found="auth.json",
    login=("codex", "login", "--device-auth"),
)
"""What a judge of engine codex uses when its `judge.toml` names nothing: a login that is not the agents'."""


def token_url(family: str, values: Mapping[str, str]) -> str:
    """Where a login of this family is renewed: the vendor's place unless the site's settings name another."""
    return values.get(TOKEN_URL + family.upper(), "") or FAMILIES[family].token_url


class CredentialsQuery(BaseModel):
    """How the logins and keys of a site stand, and who uses them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["credentials"] = "credentials"


class CredentialRow(BaseModel):
    """One login, or one key. Times are UTC text; empty where nothing tells them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    what: str  # api_key, static_token, rotating(broker), rotating(exclusive)
    state: Literal["ok", "absent", "unreadable", "expired", "refused"]
    words: str = ""
    file: str = ""
    origin: str = ""
    account: str = ""
    expires: str = ""  # of the access token; one that can be renewed goes on after it
    renewed: str = ""
    agents: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()  # that use it now
    limit: str = ""  # the last one that a run met, in words
    limit_run: int | None = None
    resets: str = ""
    login: tuple[str, ...] = ()  # the vendor's command


class CredentialsView(BaseModel):
    """Answer to `CredentialsQuery`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["credentials"] = "credentials"
    folder: str = ""
    credentials: tuple[CredentialRow, ...] = ()
    problems: tuple[str, ...] = ()
