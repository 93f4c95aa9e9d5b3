"""SGLang's connector: what turns its HiCache's calls into calls to a node.

It imports ``peercache.core`` and SGLang; ``peercache.core`` imports neither. SGLang finds the
backend at ``peercache.store``.

store        PeerCacheStore, the storage backend that SGLang calls
pools        SGLang's host pools: shared memory, page segments, shape
host_pools   the pools that SGLang has registered with a store
page_map     where the pages of a pool lie, learnt once
namespace    what makes pages interchangeable, as the digest in front of every key
identity     the namespaces of this engine's pages, by what SGLang tells about the engine
server_args  the weights that this process serves, as SGLang names them
checkpoint   the identity of weights on disk, of samples of their bytes (samples)
weights      LiveWeights, the name of the weights in memory
updates      notifies LiveWeights when SGLang changes the weights
sidecars     which prefixes a hybrid model can restore
writers      lets each TP rank store the pools whose bytes it alone holds
metrics      what SGLang's own metrics ask of a storage backend
"""
