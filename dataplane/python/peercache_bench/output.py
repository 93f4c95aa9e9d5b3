"""Writes a run into its folder: JSON, Markdown, charts and the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

from peercache_bench import draw, html, tables
from peercache_bench.charts import Chart, charts
from peercache_bench.errors import BenchError
from peercache_bench.outcome import Run


def stem(name: str) -> str:
    """A tag may be anything; a file's name may not."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def warnings(run: Run) -> list[str]:
    found = []
    if run.wrong:
        found.append(f"{run.wrong} pages had WRONG BYTES: this is a fault of PeerCache, report it")
    for o in run.outcomes:
        if o.figures.hits < o.figures.pages and o.case.op in ("get", "set", "exists"):
            missing = o.figures.pages - o.figures.hits
            found.append(f"{o.case.title}: {missing} of {o.figures.pages} pages were not there")
    return found


def write(run: Run, folder: Path) -> list[Path]:
    """The files that were written; the report first."""
    return write_files(
        stem(run.name),
        f"peercache-bench {run.name}",
        folder,
        run.to_json(),
        tables.document(run),
        charts(run),
        warnings(run),
    )


def write_files(
    name: str,
    title: str,
    folder: Path,
    values: object,
    document: str,
    pictures: list[Chart],
    warned: list[str],
    image: str = "png",
) -> list[Path]:
    hints = [] if draw.can_draw() else [draw.HINT]
    images = draw.paint(pictures, image)
    files: dict[str, bytes] = {
        f"{name}.html": html.page(title, document, images, warned, hints, image).encode(),
        f"{name}.md": document.encode(),
        f"{name}.json": (json.dumps(values, indent=1) + "\n").encode(),
        **{f"{name}-{chart}.{image}": content for chart, content in images.items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        raise BenchError(f"--out-dir {folder} cannot be written: {error}") from None
    return [folder / file for file in files]
