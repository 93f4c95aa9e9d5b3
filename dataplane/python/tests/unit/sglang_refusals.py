"""What SGLang refuses with HiCache or a storage backend, read in its sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# Names of SGLang's own settings that injection adds.
ADDED = ("enable_hierarchical_cache", "hicache_storage_backend")
# Where SGLang resolves its arguments, and makes its caches and workers.
FOLDERS = ("arg_groups", "managers", "mem_cache", "model_executor")


def refusals(srt: Path) -> list[str]:
    """`FILE FUNCTION: CONDITION` of each raise and assert whose condition reads what is added."""
    found: set[str] = set()
    for folder in FOLDERS:
        for file in (srt / folder).rglob("*.py"):
            text = file.read_text()
            if any(name in text for name in ADDED):
                found.update(f"{file.relative_to(srt)} {line}" for line in _of(ast.parse(text)))
    return sorted(found)


def _of(module: ast.Module) -> Iterator[str]:
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for conditions in _ends(function.body, []):
                if conditions and any(name in (text := _all(conditions)) for name in ADDED):
                    yield f"{function.name}: {text}"


def _ends(body: list[ast.stmt], conditions: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """The conditions of each raise and assert of a block.

    What is behind a branch that returns has the contrary of its condition.
    """
    for statement in body:
        match statement:
            case ast.Raise():
                yield conditions
            case ast.Assert(test=test):
                yield [*conditions, _not(test)]
            case ast.If(test=test, body=then, orelse=otherwise):
                yield from _ends(then, [*conditions, test])
                yield from _ends(otherwise, [*conditions, _not(test)])
                if isinstance(then[-1], ast.Return):
                    conditions = [*conditions, _not(test)]
            case ast.For() | ast.While() | ast.With():
                yield from _ends(statement.body, conditions)
            case ast.Try(body=tried, handlers=handlers):
                yield from _ends(tried, conditions)
                for handler in handlers:
                    yield from _ends(handler.body, conditions)


def _not(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
    return ast.UnaryOp(op=ast.Not(), operand=test)


def _all(conditions: list[ast.expr]) -> str:
    if len(conditions) == 1:
        return ast.unparse(conditions[0])
    return ast.unparse(ast.BoolOp(op=ast.And(), values=conditions))
