# The images of PeerCache, one target each:
#
#   operator    the Kubernetes operator
#   dataplane   peercached, the node, and peercache-perf, which measures what it moves
#   client      what a SGLang pod needs: the Python package with an extension per CPython
#   engine      SGLang's storage layer on a CPU; end-to-end tests only
#   embedded    the Python package with a node in it, for the engine; end-to-end tests only
#
#   docker build --target dataplane -t peercache/dataplane .     (or hack/release/images/build-images.sh)
#
# With --platform linux/arm64 (ARCH=arm64) the first three are for that architecture. They are compiled on the machine's own, and an
# emulator runs only what installs packages.
#
# The empty ARGs let a build use the caller's registries and caches; unset, they change nothing.

ARG DEBIAN=docker.io/library/debian:trixie-slim
# What is loaded into images that are not ours is compiled on this one, whose C library is older.
ARG OLDER_DEBIAN=docker.io/library/debian:bookworm-slim

# --- operator ------------------------------------------------------------------------------------
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26-trixie AS operator-build
ARG GOPROXY
ARG GONOSUMDB
ARG GOSUMDB
ARG SSL_CERT_FILE
ARG GOCACHE
ARG GOMODCACHE
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false"
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY VERSION ./
COPY api api
COPY operator operator
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export GOARCH=$TARGETARCH \
    && go build -ldflags "-s -w -X main.version=$(cat VERSION)" -o /out/peercache-operator ./operator \
    && go build -ldflags "-s -w -X main.version=$(cat VERSION)" -o /out/peercache-csi ./operator/csi

# peercache-csi is the CSI driver of config/csi, which runs apart from the operator.
FROM scratch AS operator
COPY --from=operator-build /out/peercache-operator /out/peercache-csi /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/peercache-operator"]

# --- C++ tool chain ------------------------------------------------------------------------------
FROM --platform=$BUILDPLATFORM ${DEBIAN} AS cpp
ARG TARGETARCH
COPY dataplane/cmake/tool-chain.sh /
RUN /tool-chain.sh $TARGETARCH
ENV CMAKE_TOOLCHAIN_FILE=/etc/target.cmake
ENV CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 LANG=C.UTF-8
WORKDIR /src

# The same source compiles once, in whichever build folder, here or on a machine of this Debian (Makefile): ccache counts the
# language too.
FROM --platform=$BUILDPLATFORM ${OLDER_DEBIAN} AS older-cpp
ARG TARGETARCH
COPY dataplane/cmake/tool-chain.sh /
RUN /tool-chain.sh $TARGETARCH
ENV CMAKE_TOOLCHAIN_FILE=/etc/target.cmake
ENV CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 LANG=C.UTF-8
WORKDIR /src

# --- data plane ----------------------------------------------------------------------------------
FROM cpp AS dataplane-build
ARG CCACHE_DIR=/root/.cache/ccache
COPY VERSION ./
COPY dataplane/CMakeLists.txt dataplane/CMakePresets.json dataplane/
COPY dataplane/cmake dataplane/cmake
COPY dataplane/src dataplane/src
COPY dataplane/bench/CMakeLists.txt dataplane/bench/
COPY dataplane/bench/perf dataplane/bench/perf
RUN --mount=type=cache,target=/root/.cache/ccache cd dataplane \
    && cmake --preset release -DCMAKE_UNITY_BUILD=ON \
    && cmake --build --preset release --target peercached peercache-perf \
    && install -D -s build/release/peercached /out/peercached \
    && install -D -s build/release/bench/peercache-perf /out/peercache-perf \
    && cmake/compiled-in.sh build/release /compiled-in

FROM ${DEBIAN} AS dataplane
RUN apt-get update && apt-get install -y --no-install-recommends \
      libibverbs1 ibverbs-providers librdmacm1t64 libnuma1 liburing2 libfmt10 libspdlog1.15 libxxhash0 \
      libprometheus-cpp-core1.0 libmicrohttpd12t64 libssl3t64 \
    && rm -rf /var/lib/apt/lists/*
# peercache-perf is what `kubectl peercache bench` measures with: 1 MiB.
COPY --from=dataplane-build /out/peercached /out/peercache-perf /usr/local/bin/
# For who asks what is in the image, and under which licences.
COPY --from=dataplane-build /compiled-in /
# A library that the list above lacks would otherwise first be missed on a node, and so would what the operator's pods run beside
# peercached (operator/plan): give folders to its user, and remove the files of pools.
RUN for program in chown flock sleep; do command -v "$program" || exit 1; done
RUN if ldd /usr/local/bin/peercached /usr/local/bin/peercache-perf | grep 'not found'; then exit 1; fi
ENTRYPOINT ["/usr/local/bin/peercached"]

# --- client --------------------------------------------------------------------------------------
# Only the headers of these are used: an extension resolves CPython's symbols when it is imported.
FROM docker.io/library/python:3.10-slim-bookworm AS cpython-310
FROM docker.io/library/python:3.11-slim-bookworm AS cpython-311
FROM docker.io/library/python:3.12-slim-bookworm AS cpython-312
FROM docker.io/library/python:3.13-slim-bookworm AS cpython-313
FROM docker.io/library/python:3.14-slim-bookworm AS cpython-314

FROM older-cpp AS client-build
ARG CCACHE_DIR=/root/.cache/ccache
ARG SSL_CERT_FILE
ARG PIP_CERT
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY dataplane/python/pybind11.sh dataplane/python/pybind11.sh
RUN dataplane/python/pybind11.sh
COPY --from=cpython-310 /usr/local/include/python3.10 /usr/local/include/python3.10
COPY --from=cpython-311 /usr/local/include/python3.11 /usr/local/include/python3.11
COPY --from=cpython-312 /usr/local/include/python3.12 /usr/local/include/python3.12
COPY --from=cpython-313 /usr/local/include/python3.13 /usr/local/include/python3.13
COPY --from=cpython-314 /usr/local/include/python3.14 /usr/local/include/python3.14
COPY VERSION ./
COPY dataplane/CMakeLists.txt dataplane/CMakePresets.json dataplane/
COPY dataplane/cmake dataplane/cmake
COPY dataplane/src dataplane/src
COPY dataplane/python/CMakeLists.txt dataplane/python/
COPY dataplane/python/bindings dataplane/python/bindings
RUN --mount=type=cache,target=/root/.cache/ccache set -eu; \
    pybind11=$(dataplane/python/pybind11.sh); \
    for v in 310 311 312 313 314; do \
      cmake -G Ninja -S dataplane -B "build/$v" -DCMAKE_BUILD_TYPE=Release \
        -DPEERCACHE_TESTS=OFF -DPEERCACHE_DAEMON=OFF -DPEERCACHE_PYBIND11_INCLUDE="$pybind11" \
        -DPEERCACHE_PYTHON_INCLUDE="/usr/local/include/python3.${v#3}" \
        -DPEERCACHE_PYTHON_SOABI="cpython-$v"; \
      cmake --build "build/$v" --target _peercache; \
      find "build/$v" -name '_peercache*.so' -exec install -D -t /out/peercache {} +; \
    done; \
    dataplane/cmake/compiled-in.sh build/310 /compiled-in
# The extension is loaded inside images that are not ours: it may need nothing but the C library, of
# Ubuntu 22.04 or newer.
RUN for so in /out/peercache/*.so; do \
      if readelf -d "$so" | grep NEEDED | grep -vE '\[(libc|libm|libpthread|libdl|librt|ld-linux-x86-64|ld-linux-aarch64)\.so'; \
        then echo "error: $so needs a library that a SGLang image may lack"; exit 1; fi; \
      newest=$(objdump -T "$so" | grep -oE 'GLIBC_2\.[0-9]+' | cut -d. -f2 | sort -n | tail -1); \
      if [ "$newest" -gt 35 ]; then echo "error: $so needs glibc 2.$newest, more than 2.35"; exit 1; fi; \
    done
COPY dataplane/python/peercache /out/peercache

FROM ${DEBIAN} AS client
COPY --from=client-build /out/peercache /opt/peercache/python/peercache
COPY --from=client-build /compiled-in /
USER 65532:65532
# What the injected init container runs: hand the package over to the engine's container.
CMD ["cp", "-a", "/opt/peercache/python/.", "/peercache/"]

# --- engine (tests only) -------------------------------------------------------------------------
FROM ${OLDER_DEBIAN} AS engine
ARG SSL_CERT_FILE
ARG PIP_CERT
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN apt-get update && apt-get install -y --no-install-recommends \
      python3-torch python3-numpy python3-psutil python3-pip ca-certificates \
    # Graphics drivers that torch's image libraries name and a CPU never loads: a quarter of the image.
    && rm -rf /var/lib/apt/lists/* /usr/lib/x86_64-linux-gnu/dri /usr/lib/x86_64-linux-gnu/libLLVM-* \
    && python3 -c 'import torch'
COPY e2e/engine/requirements.txt e2e/engine/install.sh /opt/engine/
RUN PEERCACHE_CACHE=/tmp/cache /opt/engine/install.sh --target /opt/engine && rm -rf /tmp/cache
COPY e2e/engine/enginectl e2e/engine/sglang /usr/local/bin/
COPY e2e/engine/python /opt/engine/python
# Not by PYTHONPATH: that is the pod's, and the webhook's.
RUN echo /opt/engine/python > /usr/lib/python3/dist-packages/hicache-engine.pth
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
CMD ["python3", "-m", "sglang.launch_server"]

# --- package with a node (tests only) ------------------------------------------------------------
# What pip install ./dataplane makes, and the libraries that a SGLang image would get from packages: in
# an image of its own, mounted into the engine's, because that one is a hundred times as large.
FROM client-build AS embedded-build
RUN --mount=type=cache,target=/root/.cache/ccache cd dataplane \
    && cmake --preset release -DCMAKE_UNITY_BUILD=ON -DPEERCACHE_PYBIND11_INCLUDE="$(python/pybind11.sh)" \
      -DPEERCACHE_PYTHON_INCLUDE=/usr/local/include/python3.11 \
      -DPEERCACHE_PYTHON_SOABI=cpython-311 \
    && cmake --build --preset release --target _peercache \
    && install -D -s -t /package/python/peercache build/release/python/_peercache.*.so \
    && mkdir /package/lib \
    && ldd /package/python/peercache/_peercache.*.so | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|gcc_s|stdc\+\+)\.so/ {print $3}' \
      | xargs cp -Lt /package/lib
COPY dataplane/python/peercache /package/python/peercache

FROM scratch AS embedded
COPY --from=embedded-build /package /
