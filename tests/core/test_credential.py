from typing import Any

import pytest
from pydantic import ValidationError

from ptb_tui.core.credential import API_KEY, CODEX_JUDGE, FAMILIES, TOKEN_URL, CredentialUse, token_url
from ptb_tui.core.verdict import JudgeSpec

LOGIN = {"name": "n", "file": "a/b", "found": "auth.json"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "rotating", **LOGIN}, "renewal"),
        ({"kind": "static_token", "renewal": "exclusive", **LOGIN}, "renewal"),
        ({"kind": "api_key", "renewal": "broker"}, "renewal"),
        ({"kind": "static_token"}, "name"),
        ({"kind": "static_token", **LOGIN, "file": "/etc/x"}, "below the home"),
        ({"kind": "static_token", **LOGIN, "file": "a/../../x"}, "below the home"),
        ({"kind": "static_token", **LOGIN, "found": "../x"}, "plain file name"),
        ({"kind": "static_token", **LOGIN, "name": "../x"}, "name"),
        ({"kind": "rotating", "renewal": "broker", **LOGIN}, "family"),
        ({"kind": "rotating", "renewal": "broker", **LOGIN, "family": "grok"}, "codex"),
        ({"kind": "oauth"}, "kind"),
        ({"kind": "api_key", "key": "x"}, "key"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CredentialUse.model_validate(table)


def test_the_words_of_a_kind() -> None:
    assert API_KEY.words == "api_key" and not API_KEY.is_login
    assert CODEX_JUDGE.words == "rotating(broker)" and CODEX_JUDGE.is_login and not CODEX_JUDGE.exclusive
    assert CredentialUse.model_validate({"kind": "rotating", "renewal": "exclusive", **LOGIN}).exclusive


def test_judges_do_not_use_the_agents_login_by_default() -> None:
    assert JudgeSpec(label="x", output_id="x", order=1, flags=("f",)).credential.name == "codex-judge"


def test_a_site_may_name_another_token_endpoint() -> None:
    assert token_url("codex", {}) == FAMILIES["codex"].token_url
    assert token_url("codex", {f"{TOKEN_URL}CODEX": "http://127.0.0.1:1/t"}) == "http://127.0.0.1:1/t"
