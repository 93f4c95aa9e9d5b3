"""The test engine: SGLang's real HiCache on a CPU, behind an HTTP server that tests drive.

flags      SGLang's command line, as far as it concerns HiCache
shim       what of SGLang needs a GPU and is replaced
layouts    which layouts host pools have
hostpools  real host pools over CPU tensors
cache      one real HiCacheController with its storage backend
scenario   write pages, read them back, read under load
server     HTTP on 127.0.0.1:30000
ctl        the command enginectl, for use through kubectl exec
"""
