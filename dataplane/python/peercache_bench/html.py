"""The report that opens from disk: one HTML file, with everything inside. Pure."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom: 2px solid #888; }
img { max-width: 100%; display: block; margin: 1rem 0; }
.warning { background: #fdecea; border-left: 4px solid #c62828; padding: .6rem 1rem; }
.hint { background: #f4f4f4; border-left: 4px solid #888; padding: .6rem 1rem; }
"""


_MIME = {"png": "png", "svg": "svg+xml"}


def page(
    title: str,
    document: str,
    images: Mapping[str, bytes],
    warnings: Sequence[str] = (),
    hints: Sequence[str] = (),
    kind: str = "png",
) -> str:
    """The Markdown document as HTML, with the charts after its first tables. ``kind``: png or svg,
    as draw.paint has made them."""
    first, mark, rest = document.partition("\n## ")
    pictures = "\n".join(
        f'<img alt="{html.escape(name)}" '
        f'src="data:image/{_MIME[kind]};base64,{base64.b64encode(image).decode()}">'
        for name, image in images.items()
    )
    boxes = "\n".join(
        f'<p class="{kind}">{html.escape(text)}</p>'
        for kind, texts in (("warning", warnings), ("hint", hints))
        for text in texts
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        f"{blocks(first)}\n{boxes}\n{pictures}\n{blocks(mark.strip() + ' ' + rest)}\n"
        "</body></html>\n"
    )


def blocks(document: str) -> str:
    """HTML of the Markdown that tables.py writes: headings, tables, lists and paragraphs."""
    return "\n".join(_block(text.strip("\n")) for text in document.split("\n\n") if text.strip())


def _block(text: str) -> str:
    if text.startswith("#"):
        level = len(text) - len(text.lstrip("#"))
        return f"<h{level}>{html.escape(text[level:].strip())}</h{level}>"
    lines = text.splitlines()
    if text.startswith("|"):
        return _table(lines)
    if text.startswith("- "):
        items = "".join(f"<li>{html.escape(line.removeprefix('- '))}</li>" for line in lines)
        return f"<ul>{items}</ul>"
    return f"<p>{html.escape(text)}</p>"


def _table(lines: Sequence[str]) -> str:
    header, rows = _cells(lines[0]), [_cells(line) for line in lines[2:]]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    shown = f"<tr>{head}</tr>\n" if any(header) else ""
    return f"<table>\n{shown}{body}\n</table>"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
