"""the pages of this folder -> settings for Sphinx, which builds a site without a network: `make site`."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "Kumihimo"
version = release = installed_version("kumihimo")
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples-source"]
default_role = "code"
myst_heading_anchors = 3

html_theme = "furo"
html_title = "Kumihimo 組紐"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
