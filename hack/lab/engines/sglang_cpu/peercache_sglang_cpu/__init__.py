"""SGLang's own server on a CPU, for tests and the demo.

The folder that has this package, on PYTHONPATH, is enough: SGLang loads it by its entry points for
platforms and plugins. SGLang's own CPU engine needs kernels that have no wheel. On this platform
every import takes the path of plain torch.
"""


def activate() -> str:
    return "peercache_sglang_cpu.platform:CpuPlatform"
