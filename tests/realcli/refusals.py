"""How a scripted provider says no, in the shape of each vendor's documentation."""

from __future__ import annotations

import time
from typing import Any

KINDS = ("e401", "e429", "quota", "plan", "e500")
LIMIT_S = 7200  # until a subscription's limit ends
Refusal = tuple[int, dict[str, str], dict[str, Any]]


def refusal(dialect: str, kind: str) -> Refusal:
    """Status, headers and body. `quota`: the account is empty; `plan`: the limit of a subscription; `e429`: too many
    requests in a minute."""
    return {"messages": _anthropic, "gemini": _google}.get(dialect, _openai)(kind)


def _openai(kind: str) -> Refusal:
    def body(message: str, name: str, code: str | None, **more: Any) -> dict[str, Any]:
        return {"error": {"message": message, "type": name, "param": None, "code": code, **more}}

    if kind == "e401":
        return 401, {}, body("Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
    if kind == "e429":
        words = "Rate limit reached for requests per min. Please try again in 1s."
        return 429, {"retry-after": "1"}, body(words, "requests", "rate_limit_exceeded")
    if kind == "quota":
        words = "You exceeded your current quota, please check your plan and billing details."
        return 429, {}, body(words, "insufficient_quota", "insufficient_quota")
    if kind == "plan":
        end = {"plan_type": "pro", "resets_at": int(time.time()) + LIMIT_S, "resets_in_seconds": LIMIT_S}
        return 429, {}, body("The usage limit has been reached", "usage_limit_reached", None, **end)
    return 500, {}, body("The server had an error while processing your request.", "server_error", None)


def _anthropic(kind: str) -> Refusal:
    def body(name: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": name, "message": message}, "request_id": "req_script"}

    limited = body("rate_limit_error", "This request would exceed your account's rate limit. Please try again later.")
    if kind == "e401":
        return 401, {}, body("authentication_error", "invalid x-api-key")
    if kind == "e429":
        return 429, {"retry-after": "1"}, limited
    if kind == "quota":
        return 400, {}, body("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")
    if kind == "plan":
        end, unified = str(int(time.time()) + LIMIT_S), "anthropic-ratelimit-unified"
        headers = {
            f"{unified}-status": "rejected",
            f"{unified}-reset": end,
            f"{unified}-representative-claim": "five_hour",
            f"{unified}-5h-status": "rejected",
            f"{unified}-5h-reset": end,
            f"{unified}-5h-utilization": "1.0",
            "x-should-retry": "false",
        }
        return 429, headers, limited
    return 500, {}, body("api_error", "Internal server error")


def _google(kind: str) -> Refusal:
    domain = "type.googleapis.com/google.rpc"

    def body(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}

    def violated(period: str) -> dict[str, Any]:
        quota = {"quotaMetric": "generate_requests", "quotaId": f"GenerateRequestsPer{period}PerProjectPerModel"}
        return {"@type": f"{domain}.QuotaFailure", "violations": [quota]}

    if kind == "e401":
        reason = {"@type": f"{domain}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        return 400, {}, body(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", reason)
    if kind == "e429":
        again = {"@type": f"{domain}.RetryInfo", "retryDelay": "1s"}
        words = "Resource has been exhausted (e.g. check quota). Please retry in 1s."
        return 429, {}, body(429, "RESOURCE_EXHAUSTED", words, violated("Minute"), again)
    if kind in ("quota", "plan"):
        words = "You exceeded your current quota, please check your plan and billing details."
        return 429, {}, body(429, "RESOURCE_EXHAUSTED", words, violated("Day"))
    return 500, {}, body(500, "INTERNAL", "Internal error encountered.")
