"""No public name means two things, and no two modules are called alike."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import ordbm

PACKAGE = Path(ordbm.__file__).parent
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
MIRRORS = {"kernels", "cli"}  # kernels are called as what they compute, commands as what they do
FOREIGN = {"integrations", "migrations"}  # names are those that other libraries expect


def defined_names(source):
    """The public functions, classes, constants and type aliases at the top of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            ]
        elif hasattr(ast, "TypeAlias") and isinstance(node, ast.TypeAlias):
            found = [node.name.id]
        else:
            continue
        yield from (name for name in found if not name.startswith("_"))


def repeated(pairs):
    """A line for each name that has more than one place."""
    places = defaultdict(set)
    for name, place in pairs:
        places[name].add(place.as_posix())
    several = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    return "\n".join(f"{name}: {', '.join(found)}" for name, found in sorted(several.items()))


def test_names_are_found_however_they_are_defined():
    source = "import a\nfrom b import c\nd = e = 1\nf: int = 2\ng, (h, _) = i\nx.y = z[0] = 3\n"
    source += "def j(): k = 1\nasync def l(): pass\nclass M: n = 1\n_o = 1\nif p: q = 1\n"
    assert list(defined_names(source)) == ["d", "e", "f", "g", "h", "j", "l", "M"]


def test_every_public_name_is_defined_once():
    pairs = [
        (name, module)
        for module in MODULES
        if not FOREIGN & set(module.parts)
        for name in defined_names((PACKAGE / module).read_text())
    ]
    found = repeated(pairs)
    assert not found, found


def test_no_two_modules_are_called_alike():
    pairs = [
        (module.stem, module)
        for module in MODULES
        if module.stem != "__init__" and module.parts[0] not in MIRRORS
    ]
    found = repeated(pairs)
    assert not found, found


def test_the_root_and_the_layers_are_few():
    in_root = [path for path in MODULES if len(path.parts) == 1 and path.stem[0] != "_"]
    assert len(in_root) <= 8
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    layers = [len(one["layers"]) for one in contracts if one["type"] == "layers"]
    assert layers
    assert max(layers) <= 9
