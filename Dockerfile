# ecntwin as an image: non-root, kernels compiled at build.
#
#   docker build -t ecntwin .
#   TOKEN=$(openssl rand -hex 24); HASH=$(printf %s "$TOKEN" | sha256sum | cut -d' ' -f1)
#   docker run --rm --read-only --tmpfs /tmp -v ecntwin:/var/lib/ecntwin -p 127.0.0.1:8080:8080 \
#     -e ECNTWIN_SECURITY__TOKENS="[{\"name\": \"ops\", \"sha256\": \"$HASH\", \"scopes\": [\"telemetry\", \"read\", \"operate\", \"admin\"]}]" \
#     ecntwin
#   curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/v1/recommendations/current
#
# A service without tokens answers on loopback only, and a container must listen on 0.0.0.0 to be reached: so it needs
# a token, and refuses to start without one. A settings file goes to --config: `... ecntwin serve --host 0.0.0.0 --config FILE`.
# What it remembers is in a volume at /var/lib/ecntwin, or in PostgreSQL by storage.url. With PostgreSQL, Prometheus and
# Grafana: docs/start/deploy.md.

# Set by BuildKit; a default here would win over it.
ARG TARGETARCH

FROM python:3.11-slim-bookworm AS base
ENV PATH=/opt/ecntwin/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/var/cache/ecntwin \
    XDG_STATE_HOME=/var/lib

# Compiled kernels are kept by processor name and features. A fixed baseline lets the image's be used on any machine of
# its architecture; on amd64 that is AVX2 (2013 and later). To compile for the machine at hand, start with both unset.
FROM base AS base-amd64
ENV NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2
FROM base AS base-arm64
ENV NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=+neon
# hadolint ignore=DL3006
FROM base-${TARGETARCH} AS chosen

FROM chosen AS build
# "[dask]" for rounds on a cluster: docs/operate/scaling.md.
ARG EXTRAS=""
WORKDIR /src
RUN python -m venv /opt/ecntwin
COPY requirements requirements
RUN --mount=type=cache,target=/var/cache/pip \
    lock=${EXTRAS:-[run]} && lock=${lock#\[} && PIP_CACHE_DIR=/var/cache/pip pip install --disable-pip-version-check \
    --require-hashes --no-deps --only-binary :all: --requirement "requirements/${lock%\]}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY telemetry telemetry
COPY twin twin
COPY switches switches
COPY nics nics
COPY lossless lossless
COPY rollout rollout
COPY settings settings
COPY store store
COPY service service
COPY api api
COPY lab lab
COPY cli cli
COPY examples examples
RUN pip install --no-index --no-deps --no-build-isolation ".${EXTRAS}"
# The cache is made for its owner alone; with another --user it is read and copied.
RUN python -m twin.workers.warm && chmod -R go+rX /var/cache/ecntwin

FROM chosen
RUN useradd --system --uid 10001 --user-group --home-dir /nonexistent --no-create-home ecntwin \
    && install -d -m 700 -o ecntwin -g ecntwin /var/lib/ecntwin
COPY --from=build /opt/ecntwin /opt/ecntwin
COPY --from=build --chown=ecntwin:ecntwin /var/cache/ecntwin /var/cache/ecntwin
# numba refuses a cache that it cannot write to; a volume stays writable under --read-only and begins as the image's copy.
VOLUME /var/cache/ecntwin
# Its database, where storage.url names no other.
VOLUME /var/lib/ecntwin
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["ecntwin"]
CMD ["serve", "--host", "0.0.0.0"]
