"""peercache-bench: measurements of PeerCache beside the limits of the machine.

``python -m peercache_bench --help`` lists the subcommands, which docs/dev/benchmarks.md explains.
They start ``peercached`` and load it with ``peercache-perf``. The package peercache is not
imported: only ``ratios`` needs it, for the engine that it starts.

cli, commands, options   the command line; refused: flags of the original, each with the reason
two_hosts, bare_reads, ladder    the subcommands for two hosts
plan, case               which cases a subcommand measures
runner, nodes, perf      measure a case on nodes of this machine
figures, outcome         results; tables, charts, draw, html, output and finish show and write them
compare                  results of several runs beside each other
ratios, report           shares of the machine's limits, with targets; engine, link, idle: for it
"""
