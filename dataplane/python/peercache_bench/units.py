"""Sizes, lists and numbers as they are written on the command line and in tables."""

from __future__ import annotations

import argparse
import re

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_FACTOR = {"": 1, "k": KIB, "m": MIB, "g": GIB}


def size(text: str) -> int:
    """Bytes of ``131072``, ``128k``, ``128KiB``, ``1mb``: powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is not a size; write 131072, 128k or 1Mi')
    value = float(match[1]) * _FACTOR[match[2].lower()]
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number of bytes, at least 1')
    return int(value)


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from 1')
    return value


def seconds(text: str) -> float:
    """A time that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 86400:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of seconds from 0')
    return value


def counts(text: str) -> tuple[int, ...]:
    """``1,2,4`` as numbers, each once, in their order."""
    return tuple(dict.fromkeys(count(part) for part in text.split(",")))


def sizes(text: str) -> tuple[int, ...]:
    """``4k,1m`` as bytes, each once, in their order."""
    return tuple(dict.fromkeys(size(part) for part in text.split(",")))


def size_text(value: int) -> str:
    """``128 KiB``; the largest unit that keeps it a whole number."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value // unit} {name}"
    return f"{value} B"


def number(value: float) -> str:
    """Three digits that say something; thousands in groups."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
