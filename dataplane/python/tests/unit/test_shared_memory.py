"""The descriptors behind memory, as the kernel tells them."""

from __future__ import annotations

import ctypes
import mmap
import os

from peercache.core.shared_memory import regions


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_shared_memory_is_found_by_its_inode() -> None:
    fd = os.memfd_create("pool")
    os.ftruncate(fd, 4 * mmap.PAGESIZE)
    whole, private = mmap.mmap(fd, 4 * mmap.PAGESIZE), mmap.mmap(-1, mmap.PAGESIZE)
    base = address_of(whole)
    (all_of_it,) = regions(base, len(whole))
    assert (all_of_it.base, all_of_it.length, all_of_it.offset) == (base, len(whole), 0)
    assert os.fstat(all_of_it.fd).st_ino == os.fstat(fd).st_ino
    (part,) = regions(base + mmap.PAGESIZE, mmap.PAGESIZE)
    assert (part.base, part.length, part.offset) == (
        base + mmap.PAGESIZE,
        mmap.PAGESIZE,
        mmap.PAGESIZE,
    )
    assert regions(address_of(private), len(private)) == []
    os.close(fd)
    for left in {all_of_it.fd, part.fd} - {fd}:
        os.close(left)
