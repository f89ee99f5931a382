"""Small faults in Python source, one at a time: where each could be put, and what it would read.

A fault replaces the text of one node of the syntax tree and keeps every line where it is. What
cannot change behaviour is left out by construction: annotations, docstrings and every other text,
messages of errors and of logs, imports, decorators, assertions, and keywords that are about speed
or style only.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"),
}  # fmt: skip
TWINS: dict[
    str, str
] = {}  # functions taken for one another; the last rows are instructions that kernels emit
for _one, _other in (
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"),
    ("floor", "ceil"), ("zeros", "ones"), ("cumsum", "cumprod"), ("sum", "max"), ("mean", "sum"),
    ("user_codes", "item_codes"), ("by_user", "by_item"), ("n_users", "n_items"),
    ("fadd", "fsub"), ("fmul", "fdiv"), ("add", "sub"), ("multiply", "add"),
):  # fmt: skip
    TWINS.setdefault(_one, _other)
    TWINS.setdefault(_other, _one)

SYMMETRIC = {
    "min", "max", "minimum", "maximum", "array_equal", "isclose", "allclose", "logaddexp", "add",
    "mul", "fadd", "fmul", "multiply",
}  # fmt: skip
TYPED = {
    "isinstance",
    "issubclass",
    "map",
    "filter",
    "getattr",
    "hasattr",
    "setattr",
    "cast",
    "TypeVar",
    "range",
}
TOLD = {"debug", "info", "warning", "warn", "tell", "getLogger", "prefetch"}
IDLE = {  # keywords that change speed, style or what is refused by accident only
    "frozen", "slots", "kw_only", "eq", "repr", "order", "strict", "stacklevel", "copy", "cache",
    "nogil", "fastmath", "inline", "daemon", "help", "ensure_ascii", "indent", "maxsize",
}  # fmt: skip


class Mutant(NamedTuple):
    """One fault: in `file`, `text` instead of what stands from `start` to `end` (offsets)."""

    file: str
    line: int
    within: str  # the function or class
    what: str  # the operator's name
    before: str  # the line or lines of source
    after: str
    start: int
    end: int
    text: str
    key: str

    def source(self, original: str) -> str:
        return original[: self.start] + self.text + original[self.end :]

    def is_python(self, original: str) -> bool:
        try:
            compile(self.source(original), self.file, "exec")
        except SyntaxError:
            return False
        return True


class _Sites(ast.NodeVisitor):
    """Collects (node, what, replacement text) over a module."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[tuple[ast.AST, str, str, str]] = []
        self.within: list[str] = []

    def text(self, node: ast.AST) -> str:
        start, end = _offsets(self.source, node)
        return self.source[start:end]

    def add(self, node: ast.AST, what: str, text: str) -> None:
        self.found.append((node, what, text, ".".join(self.within)))

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add(node, "statement dropped", "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self.add(node, "statement dropped", "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(node, "statement dropped", "pass")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.within.append(node.name)
        for part in node.body:
            self.visit(part)
        self.within.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.within.append(node.name)
        if node.name not in ("__repr__", "__str__", "prefetch"):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
            self._early_return(node)
            for part in node.body:
                self.visit(part)
        self.within.pop()

    def _early_return(self, node: ast.FunctionDef) -> None:
        """A procedure that returns before its first statement, if it has several."""
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        inner = [each for part in body for each in ast.walk(part)]
        valued = any(isinstance(each, ast.Return) and each.value for each in inner)
        generator = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inner)
        if body and not valued and not generator and len(inner) > 12 and node.name != "__init__":
            self.add(body[0], "return at once", "return")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if self._is_told(node.value):
                return
            if not self._is_super_init(node.value):
                self.add(node, "statement dropped", "pass")
            self.visit(node.value)
        elif not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def _is_super_init(self, node: ast.Call) -> bool:
        return self.text(node.func).startswith("super()")

    def _is_told(self, node: ast.Call) -> bool:
        name = self.text(node.func).rpartition(".")[2]
        return name in TOLD

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.text(node.targets[0]).startswith("__"):
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self.add(node, "statement dropped", "pass")
        for target in node.targets:
            self.visit(target)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add(node, "statement dropped", "pass")
        if type(node.op) in ARITHMETIC:
            one, other = ARITHMETIC[type(node.op)]
            whole = self.text(node)
            left = self.text(node.target)
            rest = whole[len(left) :].replace(f"{one}=", f"{other}=", 1)
            self.add(node, "arithmetic", left + rest)
        self.visit(node.target)
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if self.text(node.test) == "TYPE_CHECKING":
            return
        self.add(node.test, "condition negated", f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add(node.test, "condition negated", f"(not ({self.text(node.test)}))")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            self._between(node, node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (node.left, node.right)
        of_text = any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in texts)
        if type(node.op) in ARITHMETIC and not of_text:
            pair = ARITHMETIC[type(node.op)]
            self._between(node, node.left, node.right, pair)
        self.generic_visit(node)

    def _between(
        self, node: ast.AST, left: ast.expr, right: ast.expr, pair: tuple[str, str]
    ) -> None:
        """The operator between two operands, written otherwise."""
        whole = self.text(node)
        begin, end = _offsets(self.source, left)[1], _offsets(self.source, right)[0]
        first = _offsets(self.source, node)[0]
        between = self.source[begin:end]
        if between.count(pair[0]) != 1 or "#" in between:
            return
        written = whole[: begin - first] + between.replace(*pair, 1) + whole[end - first :]
        kind = "comparison" if isinstance(node, ast.Compare) else "arithmetic"
        self.add(node, kind, written)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        if len(node.values) == 2:
            pair = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            self._between(node, node.values[0], node.values[1], pair)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self.add(node, "sign dropped", f"({self.text(node.operand)})")
        self.visit(node.operand)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, "constant", str(not value))
        elif isinstance(value, int):
            self.add(node, "constant", str(value + 1))
        elif isinstance(value, float):
            self.add(node, "constant", repr(2 * value if value else 1.0))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in TWINS:
            self.add(node, "twin", f"{self.text(node.value)}.{TWINS[node.attr]}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.text(node.func).rpartition(".")[2]
        if self._is_told(node) or name.endswith(("Error", "Warning")):
            return
        if isinstance(node.func, ast.Name) and name in TWINS:
            self.add(node.func, "twin", TWINS[name])
        if name not in SYMMETRIC | TYPED:
            self._swap(node)
        if name not in ("TypeVar", "NewType", "namedtuple"):
            self.visit(node.func)
            for part in node.args:
                self.visit(part)
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg == "axis" and self.text(value) in ("0", "1"):
                    self.add(value, "axis", str(1 - int(self.text(value))))
                elif keyword.arg not in IDLE:
                    self.visit(value)

    def _swap(self, node: ast.Call) -> None:
        """Two arguments in the wrong order: the first ones, or the choices of `np.where`."""
        function = self.text(node.func)
        pair = node.args[1:3] if function == "np.where" else node.args[:2]
        # Other functions of NumPy take an array and then a shape, a type or an axis.
        if len(pair) < 2 or (function.startswith("np.") and function != "np.where"):
            return
        one, other = (self.text(part) for part in pair)
        starred = any(isinstance(part, ast.Starred) for part in pair)
        if starred or one == other or _is_text(pair[0]) != _is_text(pair[1]):
            return
        whole, first = self.text(node), _offsets(self.source, node)[0]
        (a, b), (c, d) = (_offsets(self.source, part) for part in pair)
        between = self.source[b:c]
        swapped = whole[: a - first] + other + between + one + whole[d - first :]
        self.add(node, "arguments swapped", swapped)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@lru_cache(maxsize=2)
def _lines(source: str) -> tuple[list[str], list[int]]:
    """Lines of a source, and where each begins."""
    lines = source.splitlines(keepends=True)
    return lines, list(accumulate(map(len, lines), initial=0))


def _offsets(source: str, node: ast.AST) -> tuple[int, int]:
    """Where a node's text begins and ends, in characters."""
    lines, begins = _lines(source)

    def offset(line: int, column: int) -> int:
        return begins[line - 1] + len(lines[line - 1].encode()[:column].decode())

    return (
        offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
        offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def _kept_lines(text: str, instead: str) -> str:
    """The replacement, as many lines long as what it replaces, so that no other line moves."""
    missing = text.count("\n") - instead.count("\n")
    return instead + " \\\n" * missing if missing > 0 else instead


def mutants_of(root: Path, file: str) -> Iterator[Mutant]:
    """Every fault that could be put into `file`, in the order of the source."""
    source = (root / file).read_text()
    sites = _Sites(source)
    sites.visit(ast.parse(source))
    times: dict[tuple[str, ...], int] = {}
    for node, what, text, within in sites.found:
        start, end = _offsets(source, node)
        replaced = _kept_lines(source[start:end], text)
        first = source.rfind("\n", 0, start) + 1
        last = source.find("\n", end)
        changed = source[first:start] + text + source[end:last]
        same = (file, within, what, source[first:last].strip(), changed.strip())
        times[same] = times.get(same, 0) + 1
        key = hashlib.sha256("\0".join((*same, str(times[same]))).encode()).hexdigest()[:12]
        before, after = (" ".join(part.split()) for part in same[3:])
        line = node.lineno  # type: ignore[attr-defined]
        yield Mutant(file, line, within, what, before, after, start, end, replaced, key)
