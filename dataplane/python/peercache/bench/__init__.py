"""Measurements of PeerCache beside the limits of the machine they run on.

``python -m peercache.bench ratios`` starts nodes on loopback, measures each path of the data plane
and, in the same minute, what bounds it, and prints the ratios.
"""
