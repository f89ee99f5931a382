"""A page as a list of parts, written as Markdown with pictures beside it, and as one HTML file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from ordbm import __version__
from ordbm.errors import ModelFileError
from ordbm.report import _list, _picture, _table
from ordbm.runtime.atomic_files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Heading(NamedTuple):
    """What a section is called."""

    text: str

    def html(self) -> str:
        return f"<h2>{escape(self.text)}</h2>"

    def markdown(self) -> str:
        return f"## {self.text}"


class Paragraph(NamedTuple):
    """A text without any markup."""

    text: str

    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"

    def markdown(self) -> str:
        return _plain(self.text)


class Facts(NamedTuple):
    """Names and what there is to say about them."""

    lines: Mapping[str, str]

    def html(self) -> str:
        return _list({name: escape(text) for name, text in self.lines.items()})

    def markdown(self) -> str:
        return "\n".join(f"- {_plain(name)}: {_plain(text)}" for name, text in self.lines.items())


class Table(NamedTuple):
    """The first column has names."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        rows = [
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + "</tr>"
            for name, *cells in self.rows
        ]
        return _table(self.heads, rows)

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.heads) - 1)]
        return "\n".join(
            f"| {' | '.join(map(_plain, row))} |" for row in (self.heads, rule, *self.rows)
        )


class Picture(NamedTuple):
    """A drawing, and the name of its file beside the Markdown."""

    ax: Axes
    name: str
    caption: str

    def html(self) -> str:
        return _picture(self.ax, self.caption)

    def markdown(self) -> str:
        return f"![{_plain(self.caption)}]({self.name}.svg)\n\n*{_plain(self.caption)}*"

    def svg(self) -> bytes:
        """The file; the same for the same drawing."""
        import matplotlib as mpl  # noqa: PLC0415

        drawn = io.BytesIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            self.ax.figure.canvas.figure.savefig(drawn, format="svg", metadata={"Date": None})
        return drawn.getvalue()


Part = Heading | Paragraph | Facts | Table | Picture


def write_pages(folder: Path, title: str, parts: Sequence[Part]) -> list[Path]:
    """`report.html` and `report.md` in a folder, with the latter's pictures; their paths."""
    template = Template((files("ordbm") / "templates" / "report.html").read_text(encoding="utf-8"))
    html = template.substitute(
        title=escape(title), body="\n".join(part.html() for part in parts), version=__version__
    )
    markdown = "\n\n".join([f"# {title}", *(part.markdown() for part in parts)]) + "\n"
    pages = {folder / "report.html": html, folder / "report.md": markdown}
    pictures = {
        folder / f"{part.name}.svg": part.svg().decode()
        for part in parts
        if isinstance(part, Picture)
    }
    try:
        for path, text in (pictures | pages).items():
            with atomic_file(path) as file:
                file.write(text.encode())
    except OSError as error:
        raise ModelFileError(
            f"cannot write {path}: {error.strerror or error}; choose another folder"
        ) from None
    return list(pages)


def _plain(text: str) -> str:
    """Text that Markdown takes literally, in a table too."""
    for special in "\\|*_`<[":
        text = text.replace(special, f"\\{special}")
    return text
