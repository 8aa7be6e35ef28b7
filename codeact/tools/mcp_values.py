"""Results of MCP tools as Python values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codeact.errors import ToolError

if TYPE_CHECKING:
    import mcp_types


class McpError(ToolError):
    """A tool of an MCP server failed, or, where it is `transient`, the server itself did."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


def unwrapped(schema: Mapping[str, Any] | None) -> Any:
    """The schema of the value in `{"result": value}`, into which servers wrap what is no object; else the schema."""
    return schema["properties"]["result"] if schema is not None and _is_wrapper(schema) else schema


def _is_wrapper(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and list(properties) == ["result"] and "$defs" not in schema


def returned(result: mcp_types.CallToolResult, schema: Mapping[str, Any] | None) -> Any:
    """The structured value where there is one, else text as it is, images and files as bytes, several as a list.

    Raises McpError, with what the server says, where the tool failed.
    """
    if result.is_error:
        texts = [block.text for block in result.content if block.type == "text"]
        raise McpError("\n".join(texts) or "the tool failed, and does not say why")
    value = result.structured_content
    if value is not None:
        wrapped = (
            schema is not None
            and _is_wrapper(schema)
            and isinstance(value, dict)
            and list(value) == ["result"]
        )
        return value["result"] if wrapped else value
    values = [_value(block) for block in result.content]
    return values[0] if len(values) == 1 else values or None


def _value(block: Any) -> Any:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return _bytes(block.data)
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if text is not None else _bytes(block.resource.blob)
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise McpError("the server sent what is not base64 as bytes") from error
