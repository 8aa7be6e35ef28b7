"""The user's tools as Python modules for the sandbox: what a person would have written by hand.

Names, texts, types and defaults may come from anywhere. Names are made identifiers, texts are literals, types keep only
the expressions that types are made of, and defaults only plain values; what was made is read again before it is given
out, so that nothing in it runs but definitions.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from codeact.errors import ToolSourceError
from codeact.tools import stub_text
from codeact.tools.names import DISCOVERY, ERRORS, OWN, class_name, identifier
from codeact.tools.tool import Parameter, Tool, signature

ROOT = "tools"
RUNTIME = "codeact_inside"
MAX_DOC = 4000
MAX_FIELD_DOC = 200


def modules(tools: Sequence[Tool]) -> dict[str, str]:
    """The files of the package `tools` by their path, such as `tools/shop.py`. Raises ToolSourceError where two tools,
    or a tool and a namespace, have one name."""
    by_namespace = check(tools)
    files = {}
    for namespace, members in by_namespace.items():
        inner = sorted(name for name in by_namespace if name and name.rpartition(".")[0] == namespace)
        files[_path(namespace, package=bool(inner) or not namespace)] = _module(namespace, members, inner)
    return {f"{ROOT}/errors.py": _errors_module(), **files}


def check(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    """The tools of each namespace, the empty one too. Raises ToolSourceError as `modules` does."""
    by_namespace: dict[str, list[Tool]] = {"": []}
    for tool in tools:
        _check_namespace(tool.namespace)
        for name in _parents(tool.namespace):
            by_namespace.setdefault(name, [])
        by_namespace[tool.namespace].append(tool)
    _check_names(by_namespace)
    return by_namespace


def _parents(namespace: str) -> Iterator[str]:
    parts = namespace.split(".") if namespace else []
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


def _path(namespace: str, *, package: bool) -> str:
    folder = "/".join([ROOT, *(namespace.split(".") if namespace else ())])
    return f"{folder}/__init__.py" if package else f"{folder}.py"


def _check_namespace(namespace: str) -> None:
    for part in namespace.split(".") if namespace else ():
        if identifier(part) != part:
            raise ToolSourceError(f"the namespace {namespace!r:.80} is no Python name; give it another")
    if namespace.partition(".")[0] in OWN:
        raise ToolSourceError(
            f"the namespace {namespace} is called as something that `tools` has itself; give it another name"
        )


def _check_names(by_namespace: Mapping[str, list[Tool]]) -> None:
    for members in by_namespace.values():
        seen: set[str] = set()
        for tool in members:
            if identifier(tool.name) != tool.name:
                raise ToolSourceError(f"the tool {tool.name!r:.80} has no Python name; give it another")
            if not tool.namespace and tool.name in OWN:
                raise ToolSourceError(
                    f"the tool {tool.name} is called as something that `tools` has itself; give it another name or a namespace"
                )
            if tool.name in seen:
                raise ToolSourceError(
                    f"there are two tools called {tool.path}; give one another name or namespace"
                )
            if tool.path in by_namespace:
                raise ToolSourceError(f"{tool.path} is both a tool and a namespace; give one another name")
            seen.add(tool.name)


class _Names:
    """The names of one module, so that none of ours takes the place of one of the user's."""

    def __init__(self, members: Sequence[Tool]) -> None:
        self.tools = {tool.name for tool in members}
        parameters = {parameter.name for tool in members for parameter in tool.parameters}
        taken = self.tools | parameters
        self.runtime = identifier("_host", taken)
        self.types = _types(members, self.tools)
        classes = {name for _, name, _ in self.types}
        self.record = identifier("_Record", taken) if "Record" in self.tools | classes else "Record"
        self.errors = _errors(members, self.tools | classes)

    def renamed(self, tool: Tool) -> dict[str, str]:
        """What the types of a tool are called in this module."""
        return {given: name for given, name, schema in self.types if tool.types.get(given) == schema}


def _types(members: Sequence[Tool], taken: set[str]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """The classes that annotations name, as (name given, name here, schema)."""
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    names = {*taken, *ERRORS, *stub_text.KNOWN}
    for tool in members:
        for given, schema in tool.types.items():
            fields = schema.get("properties")
            if (
                not isinstance(fields, Mapping)
                or not fields
                or (given, schema) in [(g, s) for g, _, s in found]
            ):
                continue
            name = class_name(given, names)
            names.add(name)
            found.append((given, name, schema))
    return found


def _errors(members: Sequence[Tool], taken: set[str]) -> list[str]:
    """Errors of the tools' own; those that Python has are caught as what they are."""
    said = dict.fromkeys(name for tool in members for name in tool.errors)
    return [
        name
        for name in said
        if identifier(name) == name and not hasattr(builtins, name) and name not in {*taken, *ERRORS}
    ]


def _module(namespace: str, members: Sequence[Tool], inner: Sequence[str]) -> str:
    names = _Names(members)
    parts = [_type(given, name, schema, names) for given, name, schema in names.types]
    parts += [_error(name, members) for name in names.errors]
    for tool in members:
        parts.append(_shipped(tool, names) if tool.where == "sandbox" else _stub(tool, names))
    body = "\n\n\n".join(part.strip("\n") for part in parts)
    head = _head(namespace, names, body, inner)
    source = head + (f"\n\n\n{body}\n" if body else "\n")
    _check(source, namespace)
    return source


def _head(namespace: str, names: _Names, body: str, inner: Sequence[str]) -> str:
    about = f"Tools of {namespace}: each call runs on the host." if namespace else stub_text.ROOT_TEXT
    lines = [f'"""{about}"""', "", "from __future__ import annotations", ""]
    imports = stub_text.imports(body)
    lines += [*imports, ""] if imports else []
    aliased = "" if names.runtime == "calling" else f" as {names.runtime}"
    if body:
        lines.append(f"from {RUNTIME} import calling{aliased}")
    if names.types:
        renamed = "" if names.record == "Record" else f" as {names.record}"
        lines.append(f"from {RUNTIME}.records import Record{renamed}")
    if not namespace:
        lines.append(f"from {RUNTIME}.finding import attribute as __getattr__")
        lines.append(f"from {RUNTIME}.finding import {', '.join(DISCOVERY)}")
        lines.append(f"from {RUNTIME}.finding import names as __dir__")
        lines.append(stub_text.from_import(f"{RUNTIME}.toolerrors", ERRORS))
    elif names.errors:
        lines.append(f"from {RUNTIME}.toolerrors import ToolError")
    if namespace and inner:
        lines += ["", stub_text.from_import(".", [name.rpartition(".")[2] for name in inner])]
    return "\n".join(lines).rstrip()


def _type(given: str, name: str, schema: Mapping[str, Any], names: _Names) -> str:
    renamed = {each: here for each, here, _ in names.types}
    types = {each: inner for each, _, inner in names.types}
    lines = [f"class {name}({names.record}):"]
    fields = [each for each in schema["properties"] if isinstance(each, str) and identifier(each) == each]
    described = schema.get("description")
    doc = (
        stub_text.cleaned(described if isinstance(described, str) else "", MAX_FIELD_DOC)
        or f"{name}({', '.join(fields)})"
    )
    lines.append(textwrap.indent(stub_text.docstring(doc), "    "))
    lines.append("")
    required = schema.get("required")
    for field in fields:
        text = stub_text.annotation(stub_text.of_schema(schema["properties"][field], types), renamed)
        optional = isinstance(required, list) and field not in required and text != "Any"
        lines.append(f"    {field}: {text}{' | None' if optional and 'None' not in text else ''}")
    return "\n".join(lines).rstrip()


def _error(name: str, members: Sequence[Tool]) -> str:
    raised = ", ".join(tool.name for tool in members if name in tool.errors)
    return f"class {name}(ToolError):\n" + textwrap.indent(
        stub_text.docstring(f"Raised by {raised}."), "    "
    )


def _stub(tool: Tool, names: _Names) -> str:
    renamed = names.renamed(tool)
    parameters = [_parameter(each, renamed) for each in tool.parameters]
    returns = stub_text.annotation(tool.returns, renamed) if tool.returns else ""
    kind, action = ("streaming_tool", "stream") if tool.streams else ("tool", "call")
    given = [repr(tool.path), *(f"{each.name}={each.name}" for each in tool.parameters)]
    doc = textwrap.indent(stub_text.docstring(_documentation(tool)), "    ")
    lines = [
        f"@{names.runtime}.{kind}",
        stub_text.definition(tool.name, signature(tool.name, parameters, returns)),
        doc,
        textwrap.indent(stub_text.call(f"return {names.runtime}.{action}", given), "    "),
    ]
    return "\n".join(lines)


def _parameter(parameter: Parameter, renamed: Mapping[str, str]) -> Parameter:
    if identifier(parameter.name) != parameter.name:
        raise ToolSourceError(f"the parameter {parameter.name!r:.80} has no Python name; give it another")
    default = parameter.default if stub_text.is_plain(parameter.default) else ...
    annotation = stub_text.annotation(parameter.annotation, renamed) if parameter.annotation else ""
    return Parameter(parameter.name, parameter.kind, annotation, parameter.required, default)


def _documentation(tool: Tool) -> str:
    parts = [stub_text.cleaned(tool.description, MAX_DOC) or f"Calls {tool.path} on the host."]
    described = [(each, stub_text.cleaned(each.description, MAX_FIELD_DOC)) for each in tool.parameters]
    arguments = [f"    {each.name}: {stub_text.one_line(text)}" for each, text in described if text]
    if arguments:
        parts.append("\n".join(["Args:", *arguments]))
    if raised := [name for name in tool.errors if name.isidentifier()]:
        parts.append("\n".join(["Raises:", *(f"    {name}" for name in raised)]))
    return "\n\n".join(parts)


def _shipped(tool: Tool, names: _Names) -> str:
    """A function that runs inside, as its author wrote it."""
    return f"@{names.runtime}.tool\n{tool.source.strip()}"


def _check(source: str, namespace: str) -> None:
    """What was made holds definitions and nothing else; a mistake of ours must not reach a sandbox."""
    try:
        made = ast.parse(source)
    except SyntaxError as error:
        raise ToolSourceError(
            f"the tools of {namespace or 'the agent'} make no module of Python: {error.msg}: {(error.text or '').strip():.200}"
        ) from error
    for node in made.body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom():
                continue
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
        raise AssertionError(f"a stub holds {ast.dump(node)[:200]}")


def _errors_module() -> str:
    """`tools/errors.py`, for `from tools.errors import CallRefused`."""
    return (
        f'"""What calls of tools can raise."""\n\n{stub_text.from_import(f"{RUNTIME}.toolerrors", ERRORS)}\n'
    )
