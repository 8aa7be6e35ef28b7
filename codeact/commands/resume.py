"""`codeact resume` and `codeact replay`: a recorded run, carried on or executed again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from codeact import config
from codeact.commands.invocation import (
    ANSWERED,
    NO_ANSWER,
    Invocation,
    answer_alone,
    as_json,
    load_settings,
    put,
    say,
)
from codeact.commands.runs import find
from codeact.commands.solve import mcp_servers, play, read_schema, read_task, settings_options
from codeact.home import runs_dir

if TYPE_CHECKING:
    from codeact.run.resume import Standing
    from sandbox.types import BackendName


@click.command()
@click.argument("run")
@click.argument("task", required=False)
@click.option("--changed-data", is_flag=True, help="go on although the data is not what it was")
@settings_options("data", "image", "pip", "actions")
@click.pass_obj
def resume(invocation: Invocation, /, run: str, task: str | None, changed_data: bool, **flags: Any) -> int:
    """Carry RUN on: one that was cut off, or with TASK any that ended.

    Its variables and files are made again; no call of a tool is made twice. It has the settings that it was started
    with, where no flag says otherwise, and as many turns, seconds and tokens again.
    """
    from codeact import events
    from codeact.run.resume import standing

    at = standing(find(run))
    settings = load_settings(flags, recorded=taken(at))
    invocation.json = settings.json
    invocation.debug = invocation.debug or settings.debug
    text = None if task is None else read_task(task, ())
    schema = at.started.settings.get("output_schema")
    if settings.output_schema is not None:
        schema = read_schema(settings.output_schema)
    had = sum(isinstance(event, events.Replied) for event in at.log)
    return play(
        settings,
        schema,
        lambda agent, observers: agent.resume(
            at.folder, text, changed_data=changed_data, observers=observers
        ),
        had=0 if flags["model"] else had,
    )


@click.command()
@click.argument("run")
@click.option("--json", "as_object", is_flag=True, help="one JSON object in place of the lines")
@settings_options(*(config.KINDS.keys() - {"tools", "mcp"}))
def replay(run: str, as_object: bool, **flags: Any) -> int:
    """Execute the code of RUN again, and compare what comes out.

    No model is asked and no tool is called; their definitions are what the run was started with, if it is one of yours, or --tools and
    --mcp. The first difference is printed; the exit code is 0 where there is none, and 1 where there is.
    """
    from codeact.agent import Agent
    from codeact.models import ScriptedModel
    from codeact.run.resume import standing
    from sandbox.types import Limits

    at = standing(find(run))
    settings = load_settings(flags, recorded=taken(at))
    with answer_alone(), mcp_servers(settings) as servers:
        agent = Agent(
            ScriptedModel(()),
            output_schema=at.started.settings.get("output_schema"),
            sandbox_limits=Limits(
                memory=settings.memory, cpus=settings.cpus, pids=settings.pids, disk=settings.disk
            ),
            backend=cast("BackendName", settings.sandbox),
            runtime=settings.runtime,
            network=settings.network,
            tools=[*settings.tools, *servers],
            tools_off=settings.tools_off,
        )
        done = agent.replay(at.folder)
    if as_object:
        put(
            as_json(
                {
                    "run": done.run,
                    "same": done.same,
                    "cells": done.cells,
                    "total": done.total,
                    "differences": list(done.differences),
                    "left_out": list(done.left_out),
                    "seconds": round(done.seconds, 3),
                }
            )
        )
    else:
        for line in done.left_out:
            say(line)
        put(done.differences[0] if done.differences else f"the same: {done.cells} of {done.total} cells")
    return ANSWERED if done.same else NO_ANSWER


def taken(at: Standing) -> dict[str, Any]:
    """What a run was started with, as settings of the command line. Of a run that is not among the person's own only what stays in
    the sandbox: whoever sent it would have programs of theirs run here, and an endpoint of theirs told what is not for them."""
    found = as_settings(at.started)
    if at.folder.resolve().parent == runs_dir().resolve():
        return found
    others = {
        name: value
        for name, value in found.items()
        if name in config.REACHING and value != config.DEFAULTS[name]
    }
    if others:
        say(
            f"{at.folder}: is not among your runs, so it is not taken from it that {config.listed(others)}; "
            "give what you trust with flags"
        )
    return {name: value for name, value in found.items() if name not in config.REACHING}


def _address(recorded: str | None) -> str | None:
    """An endpoint's address with the name and password that its record leaves out, where OPENAI_BASE_URL still is that address."""
    known = os.environ.get("OPENAI_BASE_URL")
    return known if known and config.endpoint(known) == recorded else recorded


def as_settings(started: Any) -> dict[str, Any]:
    """What a run was started with, as settings of the command line."""
    known: Mapping[str, Any] = started.settings
    limits, sandbox = known.get("limits", {}), known.get("sandbox_limits", {})
    with_it = known.get("started_with", {})
    found: dict[str, Any] = {
        "model": (started.model,),
        "image": known.get("image"),
        "cell_timeout": known.get("cell_timeout"),
        "network": known.get("network"),
        "pip": tuple(known.get("packages", ())),
        "runtime": known.get("runtime"),
        "sandbox": known.get("sandbox"),
        "on_death": known.get("on_death"),
        "out": Path(known["out"]) if known.get("out") else None,
        "base_url": _address(with_it.get("base_url")),
        "mcp": Path(with_it["mcp"]) if with_it.get("mcp") else None,
        "tools": tuple(with_it.get("tools", ())),
        "tools_off": tuple(with_it.get("tools_off", ())),
        "approve": with_it.get("approve"),
        "found": tuple(with_it.get("found", ())),
        **{f"max_{name}": limits.get(name) for name in ("turns", "seconds", "tokens")},
        **{name: str(sandbox[name]) for name in ("memory", "cpus", "pids", "disk") if name in sandbox},
    }
    return {name: value for name, value in found.items() if value not in (None, ())}
