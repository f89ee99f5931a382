"""The app itself: what goes wrong ends in one sentence and an exit code, never in a traceback."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import ordbm
from ordbm.runtime.interruption import listening, safe_point
from ordbm.runtime.printable import printable

BAD_INPUT = 2

IN_HELP = (
    "demo", "fit", "update", "refit", "predict", "recommend", "explain", "evaluate", "serve",
    "keys", "database", "tune", "inspect", "data", "reproduce",
)  # fmt: skip

_UsageError: Any = typer.BadParameter.__base__  # has no public name in every version of Typer


class Commands(TyperGroup):
    """A group of commands whose errors are one sentence on stderr."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=IN_HELP.index)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a title the terminal cannot show is no error
        sys.exit(self._exit_code(*args, **{**kwargs, "standalone_mode": False}))

    def _exit_code(self, *args: Any, **kwargs: Any) -> int:
        try:
            with listening() as listener:
                safe_point()
                code = super().main(*args, **kwargs)
                sys.stdout.flush()
        except _UsageError as error:
            asked = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            return _params(error.format_message().rstrip(".") + asked)
        except ordbm.errors.OrdbmError as error:
            return _params(by_option(str(error)))
        except BrokenPipeError:
            # Whoever read the output has gone; what is still in the buffer must go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            return _params(_file_trouble(error))
        except MemoryError:
            return _params("not enough memory: use fewer hidden units or links, or fewer ratings")
        except (KeyboardInterrupt, typer.Abort):
            code = listener.exit_status
        if code == listener.exit_status:
            _params("interrupted")
        return code if isinstance(code, int) else 0


def _params(sentence: str) -> int:
    print(f"ordbm: {printable(' '.join(sentence.split()))}", file=sys.stderr)
    return BAD_INPUT


def by_option(sentence: str) -> str:
    """What the library calls by the names of its arguments, by those of options."""
    for argument, option in _OPTIONS.items():
        sentence = re.sub(argument, option, sentence)
    return sentence


_OPTIONS = {
    r"\bheader=False": "--no-header",
    r"\bscale=\[\.\.\.\]": "--scale",
    r"\b(user|item|rating)=(?![\w'\"])": r"--\1-column",
    r"\b(member)=(?![\w'\"])": r"--\1",
    r"\bencoding='latin-1'": "--encoding latin-1",
    r"\bbad_lines='skip'": "--skip-bad-lines",
    r"\bbad_lines_to=": "--bad-lines-to",
    r"\bdecimal=','": "--decimal ,",
    r"\bmissing=nan\b": "--missing nan",
    r"\bmissing=(?![\w'\"\[])": "--missing",
    r"\boverwrite=True": "--force",
    r"\blimits=ReadLimits\((\w+)=\.\.\.\)": r"--max-\1",
}


def _file_trouble(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{error.filename}: {reason}" if error.filename is not None else reason


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ordbm {ordbm.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root_command(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Predict ratings, with their uncertainty, and rank items, by ordinal Boltzmann machines.

    Start with `ordbm demo`, then `ordbm fit ratings.csv -o model.ordbm` and
    `ordbm recommend model.ordbm --user ID`.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
