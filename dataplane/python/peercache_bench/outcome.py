"""Outcome and Run: what was measured, and where and how; as JSON they are what `compare` reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peercache_bench.case import Case
from peercache_bench.errors import BenchError
from peercache_bench.figures import Figures

SCHEMA = "peercache-bench/1"


@dataclass(frozen=True)
class Outcome:
    """A case with its figures and, where there is one, its limit's, taken just before it."""

    case: Case
    figures: Figures
    limit: Figures | None = None
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The measured rate as a share of the limit."""
        if self.limit is None or not self.limit.rate:
            return None
        return self.figures.rate / self.limit.rate

    @property
    def limit_name(self) -> str:
        limit = self.case.limit()
        return limit.subject if limit else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.case.title,
            "case": self.case.to_json(),
            "figures": self.figures.to_json(),
            "limit": self.limit and {"name": self.limit_name, **self.limit.to_json()},
            "ratio": self.ratio,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Outcome:
        limit = values.get("limit")
        return cls(
            Case.from_json(values["case"]),
            Figures.from_json(values["figures"]),
            Figures.from_json(limit) if limit else None,
            tuple(values.get("notes", ())),
        )


@dataclass(frozen=True)
class Run:
    """One call of peercache-bench."""

    command: str
    tag: str
    host: dict[str, Any]
    configuration: dict[str, Any]
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the run in files and comparisons."""
        return f"{self.command}-{self.tag}" if self.tag else self.command

    @property
    def wrong(self) -> int:
        """Pages whose bytes were not those that were set."""
        return sum(outcome.figures.wrong for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "command": self.command,
            "tag": self.tag,
            "host": self.host,
            "configuration": self.configuration,
            "results": [outcome.to_json() for outcome in self.outcomes],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Run:
        return cls(
            values["command"],
            values["tag"],
            values["host"],
            values["configuration"],
            [Outcome.from_json(each) for each in values["results"]],
        )


def load(path: Path) -> Run:
    """A result that was written before; BenchError says what is wrong with it."""
    try:
        values = json.loads(path.read_text())
        schema = values.get("schema") if isinstance(values, dict) else None
        if schema != SCHEMA:
            raise BenchError(
                f'{path}: its schema is "{schema}", not "{SCHEMA}": not a result of this command'
            )
        return Run.from_json(values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{path} cannot be read as a result: {error!r}") from None
