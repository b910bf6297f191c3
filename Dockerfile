# The image of masters, TaskExecutors and REST processes: docker build -t eventflink:0.1.0 . (or buildah, podman).
# conf/kubernetes/eventflink.yaml runs it. Another base has to be a Debian with Python 3.11 or newer.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS wheel
RUN apt-get -qq update && apt-get -qq install --yes --no-install-recommends python3 python3-venv
WORKDIR /source
COPY . .
RUN python3 -m venv /venv && /venv/bin/pip wheel --quiet --no-deps --wheel-dir /wheels .

FROM ${BASE}
# tini: a container's first process has to wait for those that nobody waits for. procps: Spark's scripts call ps.
RUN apt-get -qq update \
    && apt-get -qq install --yes --no-install-recommends ca-certificates openjdk-21-jre-headless procps python3 python3-venv tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home eventflink
COPY --from=wheel /wheels /wheels
# What your store needs comes on top, such as --build-arg PACKAGES="s3fs adlfs".
ARG EXTRAS=all,iceberg,kubernetes
ARG PACKAGES=s3fs
RUN python3 -m venv /opt/eventflink \
    && /opt/eventflink/bin/pip install --quiet --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" $PACKAGES \
    && install --directory --owner=eventflink /var/lib/eventflink /etc/eventflink
ENV PATH=/opt/eventflink/bin:$PATH
USER 10001
WORKDIR /home/eventflink
# One job, so that what Spark fetches when it first starts is in the image.
RUN echo '{name: first, vertices: [{id: one, sql: "SELECT 1 AS one"}]}' > first.yaml && eventflink dev first.yaml && rm first.yaml
ENTRYPOINT ["tini", "--", "eventflink"]
CMD ["--help"]
