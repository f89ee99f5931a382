"""The command line, described by the commands themselves: a directive, `command-line`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from ordbm.cli import app

PANEL = "Options"


class CommandLine(SphinxDirective):
    """A section for each command of `ordbm`: what it does, how it is called, its options."""

    def run(self) -> list[nodes.Node]:
        """Nodes of the text that `described` gives."""
        text = "\n".join(described(get_command(app), "ordbm"))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(sphinx: Any) -> dict[str, bool]:
    """Add the directive."""
    sphinx.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def described(command: Any, name: str) -> Iterator[str]:
    """Markdown about a command and all below it."""
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    below = getattr(command, "commands", {})
    yield from (f"## {name}", "", command.help or "", "")
    usage = [name, *(_usage(one) for one in arguments), "COMMAND …" if below else "[OPTIONS]"]
    yield from ("```text", " ".join(usage), "```", "")
    yield from _table("Arguments", arguments)
    options = [one for one in shown if one.param_type_name == "option" and one.name != "help"]
    for panel, group in groupby(sorted(options, key=_panel_order(options)), key=_panel):
        yield from _table(panel, list(group))
    for each in below.values():
        if not each.hidden:
            yield from described(each, f"{name} {each.name}")


def _table(title: str, parameters: list[Any]) -> Iterator[str]:
    if not parameters:
        return
    yield from (f"| {title} | |", "| --- | --- |")
    for one in parameters:
        yield f"| {_names(one)} | {_meaning(one)} |"
    yield ""


def _panel(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or PANEL


def _panel_order(options: list[Any]) -> Any:
    order = list(dict.fromkeys(map(_panel, options)))
    return lambda option: order.index(_panel(option))


def _usage(argument: Any) -> str:
    many = "…" if argument.nargs != 1 else ""
    return f"{_metavar(argument)}{many}" if argument.required else f"[{_metavar(argument)}{many}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_metavar(parameter)}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = _metavar(parameter).replace("|", "\\|")
    return names if parameter.is_flag else f"{names} *{value}*"


def _meaning(parameter: Any) -> str:
    text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    default = parameter.default
    told = getattr(parameter, "show_default", True)
    if isinstance(told, str):
        return f"{text} Default: {told}."
    if not told or default in (None, False, (), []) or callable(default) or parameter.required:
        return text
    return f"{text} Default: `{getattr(default, 'value', default)}`."
