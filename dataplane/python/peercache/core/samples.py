"""Samples: blocks of a checkpoint's weight files, which stand for all bytes of the files.

Every tensor of a safetensors file gives at least one block, from a place that its name decides. If
there are more tensors than blocks, only some of the experts that differ in number alone give one. A
change that touches no sampled block and no header goes unnoticed: a single expert of a very large
model, or a few numbers of one tensor. Training changes numbers nearly everywhere.

Costs: the headers, and at most ``MAX_BLOCKS`` blocks (32 MiB) of a checkpoint of any size.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

BLOCK = 4096
MAX_BLOCKS = 8192
# Blocks of one tensor if there are few tensors, so that small changes are noticed.
_MAX_BLOCKS_OF_A_TENSOR = 16
# Blocks of a file that has no header with the places of its tensors.
_MAX_BLOCKS_OF_A_FILE = 512
# Bytes. Zip archives (.bin, .pt) end with a directory that has a checksum of each tensor.
_ENDS = 64 << 10
# Bytes: safetensors' own limit.
_MAX_HEADER = 100_000_000
_READERS = 16
_EXPERTS = ".experts."


class Span(NamedTuple):
    """Bytes of a file, with the name of their tensor or place."""

    path: str
    name: str
    offset: int
    size: int


def digest(paths: Sequence[str]) -> list[str]:
    """One digest for each file: of its size, its header, and its sampled blocks.

    Raises OSError for a file that cannot be read, ValueError for a file with a wrong header.
    """
    sizes = [os.stat(path).st_size for path in paths]
    headers = [
        _header(path, size) if path.endswith(".safetensors") else b""
        for path, size in zip(paths, sizes, strict=True)
    ]
    tensors: list[Span] = []
    without_header: list[Span] = []
    for path, size, header in zip(paths, sizes, headers, strict=True):
        if header:
            tensors += tensors_of(path, size, header)
        else:
            without_header.append(Span(path, "", 0, size))
    blocks = [*choose(tensors), *spread(without_header)]
    read = _read(blocks)
    found = []
    for path, size, header in zip(paths, sizes, headers, strict=True):
        parts = hashlib.sha256(f"{size} {hashlib.sha256(header).hexdigest()}".encode())
        for part in read.get(path, ()):
            parts.update(part)
        found.append(parts.hexdigest())
    return found


def tensors_of(path: str, size: int, header: bytes) -> list[Span]:
    """The tensors of a safetensors file, by its header (without the length)."""
    start = 8 + len(header)
    try:
        described = json.loads(header)
        found = [
            Span(path, name, start + tensor["data_offsets"][0], _length(tensor["data_offsets"]))
            for name, tensor in described.items()
            if name != "__metadata__"
        ]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(f"{path} has no header of safetensors: {error}") from error
    for span in found:
        if span.offset < start or span.size < 0 or span.offset + span.size > size:
            raise ValueError(f"{path} ends before its tensor {span.name}: it is cut off")
    return found


def choose(tensors: Sequence[Span], limit: int = MAX_BLOCKS) -> list[Span]:
    """At most ``limit`` blocks of the tensors; the same for the same names and sizes."""
    tensors = [tensor for tensor in tensors if tensor.size > 0]
    each = max(1, min(_MAX_BLOCKS_OF_A_TENSOR, limit // max(1, len(tensors))))
    if len(tensors) > limit:
        tensors = _some_of_each_kind(tensors, limit)
    return [_block(tensor, place) for tensor in tensors for place in range(each)]


def spread(files: Sequence[Span], limit: int = MAX_BLOCKS) -> list[Span]:
    """Both ends of each file, and blocks at equal distances between them."""
    blocks = []
    for file in files:
        count = max(1, min(_MAX_BLOCKS_OF_A_FILE, limit // len(files)))
        step = max(BLOCK, file.size // count)
        inner = range(_ENDS, max(_ENDS, file.size - _ENDS), step)
        last = max(0, file.size - _ENDS)
        blocks += [Span(file.path, "start", 0, min(_ENDS, file.size))]
        blocks += [Span(file.path, str(at), at, BLOCK) for at in inner]
        blocks += [Span(file.path, "end", last, file.size - last)]
    return blocks


def _some_of_each_kind(tensors: Iterable[Span], limit: int) -> list[Span]:
    """Takes one expert of each layer and kind, then a second one of each, up to the limit."""
    numbered = sorted((_number(tensor.name), tensor) for tensor in tensors)
    turns: dict[str, int] = defaultdict(int)
    ranked = []
    for _, tensor in numbered:
        kind = _kind(tensor.name)
        ranked.append((turns[kind], tensor))
        turns[kind] += 1
    ranked.sort(key=itemgetter(0))  # stable
    return [tensor for _, tensor in ranked[:limit]]


def _kind(name: str) -> str:
    """The name without the number of the expert."""
    layer, experts, expert = name.partition(_EXPERTS)
    return f"{layer}{experts}{expert.partition('.')[2]}" if experts else name


def _block(tensor: Span, place: int) -> Span:
    blocks = max(1, tensor.size // BLOCK)
    at = _number(f"{tensor.name} {place}") % blocks * BLOCK
    return Span(tensor.path, tensor.name, tensor.offset + at, min(BLOCK, tensor.size - at))


def _number(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


def _length(offsets: Sequence[int]) -> int:
    begin, end = offsets
    return end - begin


def _header(path: str, size: int) -> bytes:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise ValueError(f"{path} has no header of safetensors")
        return file.read(length)


def _read(blocks: Sequence[Span]) -> dict[str, list[bytes]]:
    """The digests of the blocks, by file, in the order of their offsets."""
    by_file = groupby(sorted(blocks, key=attrgetter("path", "offset")), key=attrgetter("path"))
    parts = [
        (path, inner[at : at + 64])
        for path, inner in ((path, list(group)) for path, group in by_file)
        for at in range(0, len(inner), 64)
    ]
    found: dict[str, list[bytes]] = defaultdict(list)
    with ThreadPoolExecutor(_READERS) as pool:
        for (path, _), read in zip(parts, pool.map(_read_part, parts), strict=True):
            found[path].append(read)
    return found


def _read_part(part: tuple[str, Sequence[Span]]) -> bytes:
    path, blocks = part
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # or the kernel reads far more
        for block in blocks:
            digest.update(f"{block.name} {block.offset} {block.size} ".encode("utf-8", "replace"))
            digest.update(os.pread(fd, block.size, block.offset))
    finally:
        os.close(fd)
    return digest.digest()
