"""Makes a sandbox ready for a run: our code inside it, `final_answer`, and the manifest of the data."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from codeact.errors import UsageError
from sandbox import CellError, CellResult, Network, Notice, Sandbox, SandboxError

PACKAGE = "codeact_inside"
FOLDER = ".codeact"
PACKAGES = {
    "data": (
        "pandas",
        "numpy",
        "polars",
        "pyarrow",
        "duckdb",
        "scipy",
        "scikit-learn",
        "statsmodels",
        "matplotlib",
        "openpyxl",
        "xlsxwriter",
        "lxml",
        "beautifulsoup4",
        "pillow",
    ),
}
"""What the prompt says is installed, by image."""
IMPORTED = {"data": {"pd": "pandas", "np": "numpy"}}
"""What every kernel of an image has imported from the start, by the name it has: models forget to."""
SETUP_SECONDS = 60.0
NO_MODULES: Mapping[str, str] = {}
MANIFEST_SECONDS = 20.0
MAX_MISSING = 200
"""Characters of what the sandbox says is missing."""


def prepare(
    box: Sandbox,
    names: list[str],
    modules: Mapping[str, str] = NO_MODULES,
    *,
    imports: Sequence[str] = (),
    given: Mapping[str, str] = NO_MODULES,
    typed: bool = False,
) -> Any:
    """Sets the kernel up, with `modules` to import (source by path) and the lines that do so for every cell, loads the values `given` (a line of code by the name of
    its variable), and describes these and the inputs `names`; the manifest as it came, which is hostile. `typed`: answers
    come with their types.

    None where describing failed. Raises UsageError for a value that needs what the image does not have, and SandboxError when
    the kernel cannot be set up.
    """
    for file in resources.files("codeact.inside").iterdir():
        if file.name.endswith(".py"):
            box.write(f"{FOLDER}/{PACKAGE}/{file.name}", file.read_bytes(), read_only=True)
    for path, source in modules.items():
        box.write(f"{FOLDER}/{path}", source, read_only=True)
    return set_up_kernel(box, names, given, imports=imports, typed=typed)


def warm(box: Sandbox) -> None:
    """For `Pool(prepare=warm)`: imports what every kernel of its image has imported. Raises SandboxError."""
    lines = [f"import {name} as {short}" for short, name in IMPORTED.get(box.image, {}).items()]
    cell = box.run("\n".join(lines), timeout=SETUP_SECONDS)
    if cell.status != "ok":
        raise SandboxError(
            f"the kernel could not be set up: {cell.error or cell.status}; see `codeact doctor`"
        )


def described(image: str, added: Sequence[str] = ()) -> str:
    """What is installed in an image or was added to it, and what is imported already, for the prompt."""
    installed = ", ".join((*PACKAGES.get(image, ("the Python standard library",)), *added))
    imported = " and ".join(f"{name} as {short}" for short, name in IMPORTED.get(image, {}).items())
    return f"{installed}; {imported} are imported already" if imported else installed


def network(setting: Network | None) -> str:
    """What the prompt says of the network."""
    said = tomllib.loads(resources.files("codeact.prompts").joinpath("network.toml").read_text("utf-8"))
    if setting is None:
        return str(said["none"])
    return str(said["some"]).replace("{hosts}", str(setting))


def restore(
    box: Sandbox,
    loaded: Sequence[str],
    modules: Mapping[str, str],
    *,
    imports: Sequence[str] = (),
    typed: bool = False,
) -> None:
    """Sets up the kernel that came after one that died, and loads the files again with the lines that did before."""
    prepare(box, [], modules, imports=imports, typed=typed)
    for line in loaded:
        box.run(line, timeout=SETUP_SECONDS)


def set_up_kernel(
    box: Sandbox,
    names: list[str] | None = None,
    given: Mapping[str, str] = NO_MODULES,
    *,
    imports: Sequence[str] = (),
    typed: bool = False,
) -> Any:
    """What a fresh kernel needs, and with `names` or `given` the manifest."""
    lines = [
        *(f"import {name} as {short}" for short, name in IMPORTED.get(box.image, {}).items()),
        "import sys",
        f"sys.path.append('/workspace/{FOLDER}')",
        f"import {PACKAGE}.answers, {PACKAGE}.given",
        f"{PACKAGE}.answers.install(typed={typed})",
        *(f"try: {line}\nexcept Exception: pass" for line in imports),  # whoever imports it is told why not
        *describing(names or [], given),
        f"del sys, {PACKAGE}",
    ]
    cell = box.run("\n".join(lines), timeout=SETUP_SECONDS)
    if names and not given and cell.status == "died":
        set_up_kernel(
            box, imports=imports, typed=typed
        )  # without a manifest: a file kills whoever looks at it
        return None
    _check_packages(cell, box.image)
    if cell.status != "ok":
        said = [output.text for output in cell.outputs if isinstance(output, Notice)]
        reason = cell.error or "; ".join(said) or cell.status
        raise SandboxError(f"the kernel could not be set up: {reason}; see --memory and `codeact doctor`")
    return read_manifest(cell) if names or given else None


def describing(names: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Code that loads values and files, and prints what they are."""
    if not names and not given:
        return []
    paths = [f"data/{name}" for name in names]
    described = [f"{PACKAGE}.given.describe({name!r}, {name})" for name in given]
    return [
        f"import json, {PACKAGE}.manifest, {PACKAGE}.loading, {PACKAGE}.given",
        *given.values(),
        f"_described = {PACKAGE}.manifest.describe({paths!r}, seconds={MANIFEST_SECONDS})",
        f"{PACKAGE}.loading.load(_described, globals(), keep={list(given)!r})",
        f"_described['variables'] = [{', '.join(described)}]",
        "print(json.dumps(_described))",
        "del json, _described",
    ]


def describe(box: Sandbox, names: Sequence[str], given: Mapping[str, str]) -> Any:
    """Loads and describes what came later, in a kernel that is set up: as `prepare` does. Raises as that does."""
    cell = box.run(
        "\n".join([f"import {PACKAGE}", *describing(names, given), f"del {PACKAGE}"]), timeout=SETUP_SECONDS
    )
    _check_packages(cell, box.image)
    if cell.status != "ok":
        raise SandboxError(f"the data could not be loaded: {cell.error or cell.status}; see --memory")
    return read_manifest(cell)


def _check_packages(cell: CellResult, image: str) -> None:
    """Raises UsageError where a value was given that the image has no package for."""
    match cell.error:
        case CellError("NoPackage", message) if message.strip():
            name, *packages = message[:MAX_MISSING].split()
            names = " and ".join(packages)
            raise UsageError(
                f"data {name!r}: is of a kind that needs {names}, which the image {image!r} does not have; "
                f'take image="data", or packages={packages}, or give it as lists and dicts'
            )


def read_manifest(cell: CellResult) -> Any:
    """What the code of `describing` printed; None for what is no JSON."""
    try:
        return json.loads(cell.stdout)
    except (ValueError, RecursionError):
        return None
