// Copies between one contiguous page and its segments in an engine's host pool.
//
// The guarded forms are for memory that another process can take away: reading or writing a mapped
// memfd behind its (truncated) end raises SIGBUS, and so does a page with a memory error. After
// InstallCopyGuard() such a fault ends the copy with false instead of ending the process; the bytes
// at the destination are then unspecified. Without the guard installed they behave as the plain
// forms. A fault outside a guarded copy goes to whoever handled SIGBUS before.
//
// All return false, copying nothing, when the segments do not add up to the contiguous side.
// Thread-safe; a guarded copy costs about 20 ns more and makes no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

size_t TotalSize(std::span<const Bytes> segments);
size_t TotalSize(std::span<const ConstBytes> segments);

bool Gather(Bytes to, std::span<const ConstBytes> from);
bool Scatter(std::span<const Bytes> to, ConstBytes from);

// Once per process, before threads copy; further calls do nothing.
void InstallCopyGuard();
bool CopyGuardInstalled();
bool GuardedGather(Bytes to, std::span<const ConstBytes> from);
bool GuardedScatter(std::span<const Bytes> to, ConstBytes from);
// Between the segments of two engines, which may cut a page differently.
bool GuardedMove(std::span<const Bytes> to, std::span<const Bytes> from);
// An aligned word of memory that others write and can take away. Acquire: what was written before
// it was, is there.
bool GuardedLoad(const std::byte* from, uint64_t* word);
// Checksum (checksum.h) of memory that can be taken away.
bool GuardedChecksum(std::span<const ConstBytes> bytes, uint64_t* checksum);

}  // namespace peercache
