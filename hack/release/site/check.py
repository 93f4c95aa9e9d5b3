"""Whether a built site is whole: check.py FOLDER, which `make site` has written.

Every link of every page leads to a page, a heading or a file of the repository. Nothing is loaded
from elsewhere. Each page has the lists, code blocks and tables that CommonMark sees in its source.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from pages import ELSEWHERE

ROOT = Path(__file__).parents[3]
BLOCKS = ("li", "pre", "table", "blockquote")
SOURCES = re.compile(r"https://github\.com/[^/]+/[^/]+/blob/[^/]+/([^#]+)")


@dataclass
class Built(HTMLParser):
    """What one built page has."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    blocks: Counter[str] = field(default_factory=Counter)
    article: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif "src" in values:
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values["href"])
        self.article = self.article or tag == "article"
        if self.article and tag in BLOCKS:
            self.blocks[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self.article = self.article and tag != "article"


def blocks_of(text: str) -> Counter[str]:
    """The blocks that CommonMark sees."""
    kinds = {
        "list_item_open": "li",
        "fence": "pre",
        "code_block": "pre",
        "table_open": "table",
        "blockquote_open": "blockquote",
    }
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return Counter(kinds[token.type] for token in tokens if token.type in kinds)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.pages: dict[Path, Built] = {}
        for file in sorted(self.folder.rglob("*.html")):
            built = Built()
            built.feed(file.read_text())
            self.pages[file] = built
        self.checked = 0

    def faults(self) -> list[str]:
        found = []
        for file, built in self.pages.items():
            if file.name == "404.html":  # is served for any address, and so has absolute links
                continue
            name = str(file.relative_to(self.folder))
            found += [
                f"{name}: {link}: {why}" for link in built.links if (why := self.dead(file, link))
            ]
            for link in built.loaded:
                if urlsplit(link).netloc:
                    found.append(f"{name}: {link} is loaded from elsewhere")
                elif why := self.dead(file, link):
                    found.append(f"{name}: {link}: {why}")
        return found + self.unlike()

    def dead(self, file: Path, link: str) -> str:
        """What is wrong with a link, or nothing."""
        parts = urlsplit(link)
        if parts.netloc or parts.scheme:
            source = SOURCES.match(link)
            there = not source or (ROOT / unquote(source[1])).exists()
            return "" if there else "there is no such file in the repository"
        self.checked += 1
        to = file
        if parts.path:
            to = (file.parent / unquote(parts.path)).resolve()
            if to.is_dir():
                to /= "index.html"
        if not to.is_file():
            return "there is no such page"
        anchor = unquote(parts.fragment)
        if anchor and to in self.pages and anchor not in self.pages[to].anchors | {"__search"}:
            return "the page has no such heading"
        return ""

    def unlike(self) -> list[str]:
        """Pages whose lists, code blocks and tables the site reads in another way than GitHub."""
        sources = {
            f"docs/{p.relative_to(ROOT / 'docs')}": str(p.relative_to(ROOT / "docs"))
            for p in (ROOT / "docs").rglob("*.md")
        }
        found = []
        for path, page in {**sources, **ELSEWHERE}.items():
            stem = re.sub(r"(^|/)(README|index)\.md$", r"\1", page).removesuffix(".md")
            built = self.pages.get(self.folder / stem / "index.html")
            if built is None:
                found.append(f"{path}: the site lacks it")
                continue
            want = blocks_of((ROOT / path).read_text())
            found += [
                f"{path}: {built.blocks[kind]} <{kind}>, CommonMark sees {want[kind]}"
                for kind in BLOCKS
                if built.blocks[kind] != want[kind]
            ]
        return found


def main() -> int:
    site = Site(Path(sys.argv[1]))
    faults = site.faults()
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"    {len(site.pages)} pages, {site.checked} links within the site")
    return 1 if faults or len(site.pages) < 40 or site.checked < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
