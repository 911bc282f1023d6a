"""What makes a site of the documents, as a hook of mkdocs: pages that are files of the repository elsewhere, the API's
page, and files of source that documents name, so that all their links lead somewhere.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File of the repository → the page that it is."""
DECISIONS = "decisions/index.md"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
LANGUAGES = {".py": "python", ".proto": "proto", ".java": "java", ".sh": "sh", ".toml": "toml", ".yaml": "yaml"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Decisions come last, each as it is numbered."""
    assert config.nav is not None
    config.nav.append({"Decisions": [DECISIONS, *(f"decisions/{path.name}" for path in _decisions())]})
    sources = [_page_of(path) for path in _linked_sources()]
    config.nav.append({"Source": sources})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    files.append(File.generated(config, "api.md", content=_api()))
    listed = [f"- [{path.read_text().splitlines()[0].removeprefix('# ')}]({path.name})" for path in _decisions()]
    files.append(File.generated(config, DECISIONS, content="\n".join(["# Decisions", "", *listed, ""])))
    for path in _linked_sources():
        text = (ROOT / path).read_text()
        shown = f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n````\n"
        files.append(File.generated(config, _page_of(path), content=shown))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that lead to files of the repository lead to the pages that these are."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    return LINK.sub(lambda found: f"{found[1]}{_led(found[2], page.file.src_uri)}{found[3]}", markdown)


def _led(link: str, page: str) -> str:
    if re.match(r"[a-z]+:|#", link):
        return link
    path, mark, anchor = link.partition("#")
    target = _in_repository(path, page)
    if target in PAGES:
        there = PAGES[target]
    elif target == "docs/decisions":
        there = DECISIONS
    elif target.startswith("docs/"):
        there = target.removeprefix("docs/")
    elif (ROOT / target).is_file():
        there = _page_of(target)
    else:
        return link
    return posixpath.relpath(there, posixpath.dirname(page) or ".") + mark + anchor


def _in_repository(path: str, page: str) -> str:
    """The path from the root that a link of a page means."""
    home = {page: path for path, page in PAGES.items()}.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), path))


def _page_of(source: str) -> str:
    return f"source/{source}.md"


def _decisions() -> list[Path]:
    """Files of decisions, as they are numbered."""
    return sorted((ROOT / "docs" / "decisions").glob("*.md"))


def _linked_sources() -> list[str]:
    """Files outside of the documents that these lead to."""
    found = set()
    pages = {f"docs/{path.relative_to(ROOT / 'docs').as_posix()}" for path in (ROOT / "docs").rglob("*.md")}
    for home in pages | PAGES.keys():
        for _, link, _ in LINK.findall((ROOT / home).read_text()):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(home), link.partition("#")[0]))
            if "://" not in link and not path.startswith("docs/") and path not in PAGES and (ROOT / path).is_file():
                found.add(path)
    return sorted(found)


def _api() -> str:
    """What `txnclient` has for programs, in the order of its name."""
    module = ast.parse((ROOT / "client" / "txnclient" / "__init__.py").read_text())
    homes = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in module.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = sorted(homes, key=lambda name: (name != "connect", name))
    return "\n\n".join(["# The API of `txnclient`", *(f"::: {homes[name]}" for name in names)]) + "\n"
