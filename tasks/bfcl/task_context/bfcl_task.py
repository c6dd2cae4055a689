"""What both evaluations of BFCL share: messages, offered functions, one generation without running any tool."""

from typing import Any, Dict, List

import bfcl_evaluation_code

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "long": "integer", "double": "number"}
_KEPT = ("description", "enum", "required", "default")


def schema(raw: Dict[str, Any]) -> Dict[str, Any]:
    """A parameter's description in JSON Schema; the source names Python types."""
    kind = str(raw.get("type", "string"))
    out: Dict[str, Any] = {"type": _TYPES.get(kind.lower(), kind.lower())}
    out.update({name: raw[name] for name in _KEPT if name in raw})
    if isinstance(raw.get("properties"), dict):
        out["properties"] = {name: schema(value) for name, value in raw["properties"].items()}
    if isinstance(raw.get("items"), dict):
        out["items"] = schema(raw["items"])
    return out


def messages(question: Any) -> List[Any]:
    """The conversation of an item: a text, or a list of {role, content}, one level deeper in the source's form."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = {"user": ChatMessageUser, "system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    if isinstance(question, str):
        return [ChatMessageUser(content=question)]
    turns = question[0] if question and isinstance(question[0], list) else question
    return [kinds[turn["role"]](content=turn["content"]) for turn in turns]


def dataset(items: List[Dict[str, Any]]) -> Any:
    """The samples of inspect."""
    from inspect_ai.dataset import MemoryDataset, Sample

    samples = [
        Sample(
            id=item["id"], input=messages(item["question"]), target=item["target"], metadata={"tools": item["tools"]}
        )
        for item in items
    ]
    return MemoryDataset(samples, name="bfcl")


def solvers() -> List[Any]:
    """Offer the item's functions and generate once; calls are not executed."""
    from inspect_ai.solver import generate, solver
    from inspect_ai.tool import ToolInfo, ToolParams

    @solver
    def offer_functions() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            for function in state.metadata["tools"]:
                parameters = schema(function["parameters"])
                state.tools.append(
                    ToolInfo(
                        name=bfcl_evaluation_code.plain_name(function["name"]),
                        description=function.get("description", ""),
                        parameters=ToolParams.model_validate(
                            {
                                "properties": parameters.get("properties", {}),
                                "required": parameters.get("required", []),
                            }
                        ),
                    )
                )
            return state

        return solve

    return [offer_functions(), generate(tool_calls="none")]
