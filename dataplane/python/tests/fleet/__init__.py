"""Hosts of a network as real processes, hurt in every way: the fault lane and the stress lane.

    make test-faults     faults between hosts: network namespaces, needs root
    make test-stress     readers, writers, evictions and restarts on small pools, on loopback

Not among the tests of `make test-python`, which are about what engines see.
"""
