"""Values of the extra-config: one function per kind, each ``(key, value) -> parsed value``.

All raise ConfigError, which names the key, the value and the remedy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

Parser = Callable[[str, object], object]

# Linux: sun_path has 108 bytes with the final zero.
_MAX_SOCKET_PATH = 107
_MAX_TEXT = 128
_SIZE = re.compile(r"(\d+)\s*([kmgt]i?b|[kmgt]i|b)?", re.IGNORECASE)
_UNITS = "kmgt"


class ConfigError(ValueError):
    """A wrong extra-config. SGLang fails the attach with this message."""

    @classmethod
    def of(cls, key: str, value: object, problem: str, remedy: str) -> ConfigError:
        return cls(f'extra-config "{key}" = {_show(value)} {problem}: {remedy}')

    @classmethod
    def of_all(cls, errors: list[ConfigError]) -> ConfigError:
        """One error for several, so that nobody mends them one start at a time."""
        if len(errors) == 1:
            return errors[0]
        lines = "".join(f"\n  - {error}" for error in errors)
        return cls(f"the extra-config has {len(errors)} errors:{lines}")


def _show(value: object) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError.of(key, value, "is not a string", 'write it in quotes, e.g. "name"')
    if len(value) > _MAX_TEXT:
        raise ConfigError.of(key, value, f"is longer than {_MAX_TEXT} characters", "shorten it")
    return value


def long_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError.of(key, value, "is not a non-empty string", 'write e.g. "10.0.0.1:31998"')
    return value


def socket_path(key: str, value: object) -> str:
    path = long_text(key, value) if isinstance(value, str) and value else None
    if path is None or not os.path.isabs(path) or len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        raise ConfigError.of(
            key,
            value,
            f"is not an absolute path of at most {_MAX_SOCKET_PATH} bytes",
            "write e.g. /run/peercache/default.sock",
        )
    return path


def boolean(key: str, value: object) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ConfigError.of(key, value, "is not a boolean", "write true or false")


def on_off(key: str, value: object) -> str:
    return "on" if boolean(key, value) else "off"


def integer(low: int, high: int) -> Parser:
    def parse(key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError.of(
                key, value, f"is not an integer of {low}..{high}", f"write e.g. {low}"
            )
        return value

    return parse


def seconds(low: float, high: float) -> Parser:
    """Seconds, as whole milliseconds."""

    def parse(key: str, value: object) -> int:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= float(value) <= high:  # type: ignore[arg-type]
            raise ConfigError.of(
                key,
                value,
                f"is not a number of seconds of {low:g}..{high:g}",
                f"write e.g. {low:g}",
            )
        return round(float(value) * 1000)  # type: ignore[arg-type]

    return parse


def size(key: str, value: object) -> int:
    """Bytes. Units are powers of 1024, as everywhere in PeerCache."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ConfigError.of(
            key, value, "is not a size", 'write bytes or e.g. "4gb", "4Gi", "512MiB"'
        )
    unit = (match[2] or "b").lower()
    exponent = 0 if unit == "b" else _UNITS.index(unit[0]) + 1
    return int(match[1]) << (10 * exponent)


def one_of(*allowed: str, **renamed: str) -> Parser:
    """One of a few words; ``renamed`` maps further words to values."""

    def parse(key: str, value: object) -> str:
        if isinstance(value, str):
            if value in renamed:
                return renamed[value]
            if value in allowed:
                return value
        words = ", ".join(f'"{word}"' for word in dict.fromkeys([*allowed, *renamed]))
        raise ConfigError.of(key, value, "is not a known value", f"write one of {words}")

    return parse


def only(expected: object, reason: str) -> Parser:
    """A key with one supported value, which changes nothing; others are refused with a reason."""

    def parse(key: str, value: object) -> None:
        if value != expected or isinstance(value, bool) != isinstance(expected, bool):
            raise ConfigError.of(
                key,
                value,
                "is not supported",
                f"{reason}; write {_show(expected)} or remove the key",
            )

    return parse


def names(key: str, value: object) -> str:
    """A list of names, or names separated by commas, as names separated by commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ConfigError.of(
            key, value, "is not a list of names", 'write e.g. "mlx5_0,mlx5_1" or ["mlx5_0"]'
        )
    return ",".join(item.strip() for item in items if item.strip())


def unless(word: str, parser: Parser) -> Parser:
    """As ``parser``, but ``word`` gives None, which leaves the choice to the node."""

    def parse(key: str, value: object) -> object:
        return None if value == word else parser(key, value)

    return parse
