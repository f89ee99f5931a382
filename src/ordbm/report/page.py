"""A page as a list of parts, written as one self-contained HTML file or as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ordbm import __version__
from ordbm.errors import ModelFileError
from ordbm.runtime.atomic_files import NotOursError, atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GENERATOR = b'<meta name="generator" content="ordbm">'  # of every page.html


class SectionHeading(NamedTuple):
    """What a section is called."""

    text: str

    def html(self) -> str:
        return f"<h2>{escape(self.text)}</h2>"

    def markdown(self) -> str:
        return f"## {_literal(self.text)}"


class Paragraph(NamedTuple):
    """A text without any markup."""

    text: str

    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"

    def markdown(self) -> str:
        return _literal(self.text)


class FactList(NamedTuple):
    """Names and what there is to say about them; a line break in a text stays one."""

    lines: Mapping[str, str]

    def html(self) -> str:
        inside = "\n".join(
            f"<dt>{escape(name)}</dt><dd>{'<br>'.join(map(escape, text.splitlines()))}</dd>"
            for name, text in self.lines.items()
        )
        return f"<dl>\n{inside}\n</dl>"

    def markdown(self) -> str:
        return "\n".join(
            f"- {_literal(name)}: {_literal('; '.join(text.splitlines()))}"
            for name, text in self.lines.items()
        )


class Cell(NamedTuple):
    """A figure with how sure it is beside it, and whether it is the best of its row."""

    text: str
    spread: str = ""
    is_best: bool = False

    def html(self) -> str:
        kind = ' class="best"' if self.is_best else ""
        spread = f"<small>{escape(self.spread)}</small>" if self.spread else ""
        return f"<td{kind}>{escape(self.text)}{spread}</td>"

    def markdown(self) -> str:
        text = " ".join(filter(None, (_literal(self.text), _literal(self.spread))))
        return f"**{text}**" if self.is_best else text


class Table(NamedTuple):
    """The first column has names."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | str]]]

    def html(self) -> str:
        top = "".join(f'<th scope="col">{escape(head)}</th>' for head in self.heads)
        inside = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(_cell(cell).html() for cell in cells)
            + "</tr>"
            for name, cells in self.rows
        )
        return (
            f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n'
            f"<tbody>\n{inside}\n</tbody></table></div>"
        )

    def markdown(self) -> str:
        lines = [
            map(_literal, self.heads),
            ["---", *["---:"] * (len(self.heads) - 1)],
            *([_literal(name), *(_cell(one).markdown() for one in row)] for name, row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Picture(NamedTuple):
    """A drawing, and the name of its file beside the Markdown."""

    ax: Axes
    name: str
    caption: str

    def html(self) -> str:
        """The drawing as inline SVG, with text as text and ids that no other picture has."""
        svg = self._drawn(self.caption, dict.fromkeys(("Creator", "Date", "Format", "Type")))
        svg = svg[svg.index("<svg") :]
        own = f"p{blake2s(svg.encode(), digest_size=6).hexdigest()}-"
        svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{own}", svg)
        return f"<figure>{svg}<figcaption>{escape(self.caption)}</figcaption></figure>"

    def markdown(self) -> str:
        return f"![{_literal(self.caption)}]({self.name}.svg)\n\n*{_literal(self.caption)}*"

    def svg(self) -> str:
        """The file; the same for the same drawing."""
        return self._drawn(self.name, {"Date": None})

    def _drawn(self, salt: str, metadata: Mapping[str, None]) -> str:
        import matplotlib as mpl  # noqa: PLC0415

        drawn = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
            self.ax.figure.canvas.figure.savefig(drawn, format="svg", metadata=metadata)
        return drawn.getvalue()


class Gallery(NamedTuple):
    """Pictures side by side, as far as there is room."""

    pictures: Sequence[Picture]

    def html(self) -> str:
        return f'<div class="figures">{"".join(one.html() for one in self.pictures)}</div>'

    def markdown(self) -> str:
        return "\n\n".join(one.markdown() for one in self.pictures)


PagePart = SectionHeading | Paragraph | FactList | Table | Picture | Gallery


def html_page(title: str, parts: Sequence[PagePart]) -> str:
    """The whole HTML file."""
    template = Template((files(__package__) / "page.html").read_text(encoding="utf-8"))
    body = "\n".join(part.html() for part in parts)
    return template.substitute(title=escape(title), body=body, version=__version__)


def markdown_page(title: str, parts: Sequence[PagePart]) -> str:
    """The whole Markdown file; its pictures are files of their own."""
    return "\n\n".join([f"# {_literal(title)}", *(part.markdown() for part in parts)]) + "\n"


def picture_files(parts: Sequence[PagePart]) -> dict[str, str]:
    """Name and content of each picture that the Markdown shows."""
    drawn = [
        one for part in parts for one in (part.pictures if isinstance(part, Gallery) else [part])
    ]
    return {f"{one.name}.svg": one.svg() for one in drawn if isinstance(one, Picture)}


def is_page(file: BinaryIO) -> bool:
    """Whether an open file begins as pages do that are written here."""
    return _GENERATOR in file.read(1000)


def write_page(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a file such that it appears whole or not at all; over pages only, unless told so."""
    try:
        with atomic_file(path, None if overwrite else is_page) as file:
            file.write(text.encode())
    except NotOursError as error:
        raise ModelFileError(
            f"cannot write {path}: {error.strerror}, not a page of ordbm; choose another name, or "
            "say overwrite=True"
        ) from None
    except OSError as error:
        raise ModelFileError(
            f"cannot write {path}: {error.strerror or error}; choose a file name in a folder "
            "that exists and may be written to"
        ) from None


def _cell(cell: Cell | str) -> Cell:
    return Cell(cell) if isinstance(cell, str) else cell


def _literal(text: str) -> str:
    """Text that Markdown takes literally, in a table too."""
    for special in "\\|*_`<[":
        text = text.replace(special, f"\\{special}")
    return text
