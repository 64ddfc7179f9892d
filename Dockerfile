# Sluice with all that it needs; nothing is fetched when it runs.
#   docker build --tag sluice .
#   docker run sluice check examples/flights.yaml
# The base is pinned by its tag, so that a new build gets Debian's security updates. To build the very same image again,
# pin it by digest: --build-arg PYTHON=python:3.11.14-slim-bookworm@sha256:... (docker buildx imagetools inspect shows it).
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS base
# No versions: Debian's mirrors keep only the newest of a release, and that is the one to have.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/sluice/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    # Kernels that are compiled here run on any machine of this architecture.
    NUMBA_CPU_NAME=generic

FROM base AS build
RUN python -m venv /opt/sluice
COPY deploy/requirements.lock /src/deploy/requirements.lock
RUN pip install --no-cache-dir --require-hashes --requirement /src/deploy/requirements.lock
COPY pyproject.toml README.md LICENSE /src/
COPY deploy/ivy.xml /src/deploy/ivy.xml
COPY examples /src/examples
COPY schemas /src/schemas
COPY service /src/service
# Compiled code is valid for the time of its source, which a layer holds in whole seconds.
RUN pip install --no-cache-dir --no-deps --no-build-isolation --no-compile /src \
    && find /opt/sluice/lib/python*/site-packages/sluice* -name '*.py' -exec touch --date=@1500000000 '{}' + \
    && python -m compileall -q /opt/sluice/lib/python*/site-packages/sluice /opt/sluice/lib/python*/site-packages/sluice_demo
RUN python -m sluice.jvm.jars && sluice compile
# 150 MB, with which a start takes half of Java's processor time. Java uses the archive only with these very jars.
RUN python -m sluice.spark.java.write_class_archive

FROM base
RUN useradd --system --uid 10001 --home-dir /var/lib/sluice --create-home sluice \
    && install --directory --owner=sluice /var/lib/sluice/checkpoints
COPY --from=build /opt/sluice /opt/sluice
COPY examples /var/lib/sluice/examples
# Kernels are read from the package. What is compiled beside them is written below this folder.
ENV XDG_CACHE_HOME=/tmp
USER 10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice/checkpoints
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://localhost:8080/healthz', timeout=4)"]
# SIGTERM reaches the service, which ends the batch in hand: six seconds at most, and the process within ten.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "sluice"]
CMD ["--help"]
