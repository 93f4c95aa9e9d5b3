"""Links of pages: GitHub follows paths of the repository, the site has pages of its own.

A link to a page of the site stays within the site; a link to any other file of the repository leads
to that file at the commit or tag that the site is made of.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

_LINK = re.compile(r"(\]\()([^()\s]+)(\))")
_DEFINITION = re.compile(r"^( {0,3}\[[^\]]+\]: +)(\S+)()$", re.MULTILINE)
_CODE = re.compile(r"^( *)(`{3,}|~{3,}).*?^ *\2`*~* *$|`[^`\n]+`(?!\]\()", re.MULTILINE | re.DOTALL)


def rewrite(text: str, path: str, pages: Mapping[str, str], files: str) -> str:
    """The page at `path` of the repository, with links that the site can follow.

    `pages` maps paths of the repository to paths in the site. `files` is the address below which
    all other files of the repository are found.
    """

    def target(match: re.Match[str]) -> str:
        return match[1] + _follow(match[2], path, pages, files) + match[3]

    pieces, end = [], 0
    for code in _CODE.finditer(text):
        pieces += [_replace(text[end : code.start()], target), code[0]]
        end = code.end()
    return "".join([*pieces, _replace(text[end:], target)])


def _replace(text: str, target: object) -> str:
    return _DEFINITION.sub(target, _LINK.sub(target, text))  # type: ignore[call-overload,no-any-return]


def _follow(link: str, path: str, pages: Mapping[str, str], files: str) -> str:
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    name, mark, anchor = link.partition("#")
    to = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if to in pages:
        return posixpath.relpath(pages[to], posixpath.dirname(pages[path]) or ".") + mark + anchor
    return f"{files}/{to}{mark}{anchor}"
