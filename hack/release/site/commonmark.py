"""Pages are CommonMark, as GitHub has it. The site's Markdown wants more columns and blank lines.

`for_site` writes a page as the site reads it. The text of a list's item is 4 columns deeper for
each level, however the page indents it. Lists and tables are set off from the paragraph above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ITEM = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( {1,4})(?=\S)")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})")
_TABLE = re.compile(r"^ *\|")


@dataclass
class _Page:
    lines: list[str] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)  # where the text of each open item begins
    fence: str = ""
    code: bool = False  # the line above is of an indented block
    table: bool = False  # ... of a table
    paragraph: bool = False  # ... of text that a list or table would be taken as a part of
    first: bool = False  # ... of the paragraph that an item begins with

    def put(self, line: str) -> None:
        """Writes a line of the innermost item."""
        inner = self.columns[-1] if self.columns else 0
        bare = line.lstrip(" ")
        rest = max(0, len(line) - len(bare) - inner)
        self.lines.append(" " * (4 * len(self.columns) + rest) + bare if bare else "")

    def close(self, indent: int) -> None:
        """Ends the items that a line with this indent is not part of."""
        while self.columns and indent < self.columns[-1]:
            self.columns.pop()

    def apart(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")


def for_site(text: str) -> str:
    page = _Page()
    for line in text.split("\n"):
        _add(page, line.rstrip())
    return "\n".join(page.lines)


def _add(page: _Page, line: str) -> None:
    blank_above = not page.lines or not page.lines[-1]
    indent = len(line) - len(line.lstrip(" "))
    if page.fence:
        page.put(line)
        if line.strip().startswith(page.fence) and not line.strip(" `~"):
            page.fence = ""
    elif not line:
        page.lines.append("")
        page.paragraph = page.table = page.first = False
    elif _is_code(page, indent, blank_above):
        page.close(indent)
        page.put(line)
        page.code = True
    else:
        page.code = False
        if (item := _ITEM.match(line)) and _may_begin(page, item):
            _begin_item(page, line, item)
        else:
            _add_text(page, line, indent, blank_above)


def _is_code(page: _Page, indent: int, blank_above: bool) -> bool:
    """Whether it is of an indented block, which may hold what looks like an item."""
    inner = max((column for column in page.columns if column <= indent), default=0)
    return (blank_above or page.code) and indent >= inner + 4


def _may_begin(page: _Page, item: re.Match[str]) -> bool:
    """A number at the begin of a line of text is no list, unless it is 1."""
    return bool(page.columns) or not page.paragraph or item[2] in ("-", "*", "+", "1.", "1)")


def _begin_item(page: _Page, line: str, item: re.Match[str]) -> None:
    if page.paragraph and not page.first:
        page.apart()
    page.close(len(item[1]))
    page.lines.append(" " * (4 * len(page.columns)) + item[2] + " " + line[item.end() :])
    page.columns.append(item.end())
    page.paragraph = page.first = True
    page.table = False


def _add_text(page: _Page, line: str, indent: int, blank_above: bool) -> None:
    if blank_above or line.startswith("#"):
        page.close(indent)  # elsewhere it goes on with the paragraph, however it is indented
    if fence := _FENCE.match(line):
        page.fence = fence[2]
        page.apart()
    table = bool(_TABLE.match(line))
    if table and page.paragraph and not page.table:
        page.apart()
    page.put(line)
    page.first = page.first and not page.fence
    page.table = table
    page.paragraph = not table and not page.fence
