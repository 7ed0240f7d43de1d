# docker build -t mcpproxy .
# docker run -p 127.0.0.1:8080:8080 -e MCPPROXY_MCP_TOKEN=... -v mcpproxy:/data mcpproxy

FROM python:3.13.11-slim-bookworm AS build
WORKDIR /src
# Everything becomes a wheel first, so that what is installed below is exactly that and nothing from an index. What comes
# from one is locked by hash; `python -m tests.house.lock` makes the locks.
COPY requirements ./requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt
RUN pip wheel --no-cache-dir --no-deps --require-hashes --wheel-dir /wheels -r requirements/image.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY mcpproxy_py ./mcpproxy_py
RUN pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels ".[postgres,patterns,otel]"
RUN python -m venv /opt/mcpproxy
RUN /opt/mcpproxy/bin/pip install --no-cache-dir --no-index --find-links /wheels "mcpproxy-py[postgres,patterns,otel]" uv

FROM python:3.13.11-slim-bookworm
# nodejs and npm start `npx` upstreams, git fetches those that live in repositories; `uvx` and `python` come with
# the virtual environment. tini is process 1: it passes signals on and reaps orphans of upstreams.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git nodejs npm tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/mcpproxy /opt/mcpproxy
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin mcpproxy \
    && install --directory --mode 0700 --owner mcpproxy --group mcpproxy /data
ENV PATH="/opt/mcpproxy/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    MCPPROXY_DATA_DIR=/data \
    MCPPROXY_LISTEN=0.0.0.0:8080
USER mcpproxy
WORKDIR /data
VOLUME /data
EXPOSE 8080
# Follows MCPPROXY_LISTEN to its port; /healthz answers whatever the Host header says.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['MCPPROXY_LISTEN'].rpartition(':')[2] + '/healthz', timeout=4)"]
ENTRYPOINT ["tini", "--", "mcpproxy"]
CMD ["serve"]
