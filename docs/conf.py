"""The site: MyST Markdown, the furo theme, nothing fetched when it is built or read."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from ordbm import __version__

project = "ordbm"
author = "The ordbm developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser", "sphinx.ext.autodoc", "commands", "mathml", "offline", "plain_docstrings",
]  # fmt: skip
exclude_patterns = ["_build", "_extensions"]
nitpicky = False

html_theme = "furo"
html_title = f"ordbm {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
