"""What a scrape of `/metrics` costs, and whom it holds up: `python -m tests.bench.scrape --against CHECKOUT`.

Gateways with as many (disabled) servers as make some 4,000 samples, that of this checkout and that of another one
beside it, asked in turns: how long one scrape takes, and how long `/healthz` takes on another connection meanwhile,
which is how long the event loop did nothing else. Whether both serve the same series is said too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.measure import figures, percentile, report, spread
from tests.support.gateway import Running, start

OPEN_METRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
KINDS: dict[str, dict[str, str]] = {"text": {}, "OpenMetrics": OPEN_METRICS}


class Connection:
    def __init__(self, running: Running) -> None:
        self.open = HTTPConnection(running.url.removeprefix("http://"), timeout=30)

    def get(self, path: str, headers: dict[str, str]) -> tuple[float, float, bytes]:
        """When it began and ended, and what came."""
        began = time.perf_counter()
        self.open.request("GET", path, headers=headers)
        answer = self.open.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return began, time.perf_counter(), content


class Prober(threading.Thread):
    """Asks for `/healthz` again and again."""

    def __init__(self, running: Running) -> None:
        super().__init__(daemon=True)
        self.connection, self.enough = Connection(running), threading.Event()
        self.probes: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self.enough.is_set():
            self.probes.append(self.connection.get("/healthz", {})[:2])
            self.enough.wait(0.0005)

    def finish(self) -> list[tuple[float, float]]:
        self.enough.set()
        self.join()
        return self.probes


def series(content: bytes) -> set[Any]:
    """Every series with its type and help; not its value."""
    return {
        (family.type, family.documentation, sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
        if sample.name != "mcpproxy_chain_head_info"
    }


def one_round(running: Running, headers: dict[str, str], scrapes: int) -> tuple[float, float, float]:
    """Medians in milliseconds: of the scrapes, of the probes, and of the longest probe that met each scrape."""
    scraper, prober, spans = Connection(running), Prober(running), []
    prober.start()
    for _ in range(scrapes):
        spans.append(scraper.get("/metrics", headers)[:2])
        time.sleep(0.02)
    probes = prober.finish()
    met = [max((e - b for b, e in probes if b < ended and e > began), default=0.0) for began, ended in spans]
    columns = ([ended - began for began, ended in spans], [ended - began for began, ended in probes], met)
    scrape, probe, longest = (percentile(column, 0.5) * 1000 for column in columns)
    return scrape, probe, longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, beside this one")
    parser.add_argument("--servers", type=int, default=138)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scrapes", type=int, default=20, help="in each round")
    options = parser.parse_args()
    checkouts = {"ours": Path(__file__).parents[2], **({"other": options.against} if options.against else {})}
    servers = {f"server-{number}": {"command": "true", "enabled": False} for number in range(options.servers)}
    print(f"processors: {os.cpu_count()}, load: {os.getloadavg()[0]:.1f}")
    rows: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        gateways = {}
        for name, checkout in checkouts.items():
            env = {"PYTHONPATH": str(checkout.resolve()), "PYTHONSAFEPATH": "1"}
            gateways[name] = start(Path(folder) / name, {"mcpServers": servers}, env=env)
            stack.callback(gateways[name].stop)
        first = {name: Connection(running).get("/metrics", {}) for name, running in gateways.items()}
        found = {name: series(content) for name, (_, _, content) in first.items()}
        for name, (began, ended, _) in first.items():
            print(f"{name:<6} first scrape {(ended - began) * 1000:.1f} ms, {len(found[name])} samples")
        if "other" in found:
            print(f"the same series: {found['ours'] == found['other']}", sorted(found["ours"] ^ found["other"])[:5])
        for _ in range(options.rounds):
            for name, running in gateways.items():
                for kind, headers in KINDS.items():
                    rows.setdefault(f"{name} {kind}", []).append(one_round(running, headers, options.scrapes))
    print(f"\n{'milliseconds':<20} {'a scrape':<24} {'/healthz meanwhile':<24} the longest that met a scrape")
    for name, values in rows.items():
        print(f"{name:<20} " + " ".join(f"{spread(column):<24}" for column in zip(*values, strict=True)))
    columns = ("scrape_ms", "probe_ms", "longest_probe_ms")
    report("scrape", {
        name: dict(zip(columns, map(figures, zip(*values, strict=True)), strict=True)) for name, values in rows.items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
