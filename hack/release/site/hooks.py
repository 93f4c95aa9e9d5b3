"""What mkdocs.yml does besides: pages from outside of docs/; the repository's links and lists."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from commonmark import for_site
from links import rewrite
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pages import ELSEWHERE

ROOT = Path(__file__).parents[3]


class _Site:
    pages: dict[str, str]  # paths of the repository, and of the site
    files: str


def _revision() -> str:
    """What links to sources lead to: the tag that is released, else the commit."""
    if ref := os.environ.get("SITE_REF"):
        return ref
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Runbooks are listed by what there is: an alert without one fails a test elsewhere."""
    runbooks = sorted(Path(config.docs_dir, "runbooks").glob("*.md"))
    listed = [{page.stem: f"runbooks/{page.name}"} for page in runbooks]
    operate = next(section["Operate"] for section in config.nav or [] if "Operate" in section)
    operate.append({"Runbooks": listed})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, name in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    inside = {f"docs/{file.src_uri}": file.src_uri for file in files.documentation_pages()}
    media = {f"docs/{file.src_uri}": file.src_uri for file in files.media_files()}
    _Site.pages = {**inside, **media, **ELSEWHERE}
    _Site.files = f"{config.repo_url.rstrip('/')}/blob/{_revision()}"
    return files


def on_page_markdown(text: str, page: Page, **_: object) -> str:
    paths = {name: path for path, name in _Site.pages.items()}
    return for_site(rewrite(text, paths[page.file.src_uri], _Site.pages, _Site.files))
