# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hooks of MkDocs: the pages are read as the repository has them, and as GitHub and GitLab show them."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]

# What pages link to, or the site needs, outside of docs/.
OTHERS = ["*.md", "LICENSE-*", "changelog/TEMPLATE.md", "fuzz/README.md", "examples/*/README.md",
          "scripts/site/*.css", "scripts/site/*.js"]

COMMENTS = re.compile(r"\A(<!--.*?-->\s*)+", re.DOTALL)
LINK_TO_DIRECTORY = re.compile(r"\]\((examples/[\w-]+)\)")
# The search shows guides and the reference before measurements and the reasons of decisions.
LAST_FOUND = re.compile(r"docs/(performance|design/)|CHANGELOG")
FENCE = re.compile(r" *```")
ITEM = re.compile(r"([-*]|\d+\.) +")
CELL_BORDER = re.compile(r"(?<!\\)\|")
CODE_IN_CELL = re.compile(r"`[^`]*`")


def on_files(files, config):
    """Gives each file its path in the repository, so that the links between them are right as they are."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
        files.append(File.generated(config, f"docs/{file.src_uri}", abs_src_path=file.abs_src_path))
    for path in sorted(path for pattern in OTHERS for path in ROOT.glob(pattern)):
        file = File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        if not path.suffix:
            # Without an extension, servers offer it as a download.
            file.dest_uri += ".txt"
        files.append(file)
    return files


def on_page_markdown(markdown, page, **_):
    """Rewrites what Python-Markdown does not read in the way of GitHub and GitLab."""
    if LAST_FOUND.match(page.file.src_uri):
        page.meta["search"] = {"boost": 0.3}
    markdown = COMMENTS.sub("", markdown)
    markdown = LINK_TO_DIRECTORY.sub(r"](\1/README.md)", markdown)
    return "\n".join(lines_of(markdown))


def on_page_content(html, **_):
    """Makes cells of empty headers of tables: screen readers announce headers."""
    return html.replace("<th></th>", "<td></td>")


def lines_of(markdown):
    """The lines. What belongs to an item of a list is indented by four columns."""
    fenced, shift = False, 0
    for line in markdown.splitlines():
        item = ITEM.match(line)
        if not fenced:
            if item:
                shift = 4 - len(item.group())
            elif line and not line.startswith(" "):
                shift = 0
            if line.startswith("|"):
                line = row_of(line)
        if FENCE.match(line):
            fenced = not fenced
        yield " " * shift + line if shift > 0 and line.startswith(" ") else line


def row_of(line):
    """A row of a table. Code ends with its cell, and `|` in code has no `\\`."""
    cells = CELL_BORDER.split(line)
    cells = ["&#96;".join(cell.rsplit("`", 1)) if cell.count("`") % 2 else cell for cell in cells]
    return CODE_IN_CELL.sub(lambda code: code.group().replace("\\|", "|"), "|".join(cells))


def on_post_build(config):
    """Removes what is for web servers only: these files contain the address of the site, and there is none."""
    if not config.site_url:
        for name in "404.html", "sitemap.xml", "sitemap.xml.gz":
            (Path(config.site_dir) / name).unlink(missing_ok=True)
