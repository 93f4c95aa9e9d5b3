"""SGLang's own servers, which share one import of SGLang: a program that reads a JSON object a line
and answers with one. It runs in the interpreter that has the engines.

  {"do": "serve", "name", "arguments", "log", "env"}   a server; answers with its process group

Servers end with this program.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import Any

PR_SET_PDEATHSIG = 1
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    # For more ranks than NUMA nodes: each of two may use all processors.
    "SGLANG_CPU_OMP_THREADS_BIND": "|".join(2 * [f"0-{(os.cpu_count() or 1) - 1}"]),
    # A request of its own, which takes a second, tells nothing that a test's request does not.
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
}
# What the processes of a server import, after the plugin has replaced functions in it.
MODULES = (
    "peercache.store",
    "sglang.launch_server",
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.managers.scheduler",
    "sglang.srt.models.registry",
)


def load() -> None:
    os.environ.update(ENVIRONMENT)
    importlib.import_module("sglang.srt.plugins").load_plugins()
    for name in MODULES:
        importlib.import_module(name)


def serve(arguments: list[str], log: str, env: dict[str, str], parent: int) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.update(env)
    tempfile.tempdir = os.path.dirname(log)  # what a killed server leaves is the test's
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, to in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, to)
    prepared = importlib.import_module("sglang.srt.server_args").prepare_server_args(arguments)
    importlib.import_module("sglang.launch_server").run_server(prepared)


def start(order: dict[str, Any]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            serve(order["arguments"], order["log"], order["env"], parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)  # not the loop of the program
    return child


def main() -> None:
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a server that ends leaves no zombie
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"group": start(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
