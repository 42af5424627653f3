"""the pages of this folder -> settings for Sphinx, which builds a site without a network: `make site`."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "Kumihimo"
version = release = installed_version("kumihimo")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples-source"]
default_role = "code"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
nitpick_ignore_regex = [  # types without a page in this documentation
    ("py:class", r"Path|collections\.abc\..*|pathlib\..*|np\.uint\d+|NDArray|kumihimo\.(core|ports)\..*|.*\.T"),
    ("py:class", r"kumihimo\.app\.opened\.open_index\.OpenIndex|kumihimo\.llm\.budget\.Ledger"),
]

html_theme = "furo"
html_title = "Kumihimo 組紐"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
