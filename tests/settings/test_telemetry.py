"""Whether traces are wanted, by OpenTelemetry's variables."""

from __future__ import annotations

import pytest

from mcpproxy_py.settings.environment import trace_export

AT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        (AT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://there/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": " OTLP "}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp,console"}, True),
        ({"OTEL_TRACES_EXPORTER": "console,none"}, False),
        ({"OTEL_TRACES_EXPORTER": ""}, False),
        ({**AT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**AT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({**AT, "OTEL_SDK_DISABLED": "false"}, True),
        ({**AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://there"}, False),
    ],
)
def test_traces_are_off_until_an_exporter_is_configured(environ: dict[str, str], wanted: bool) -> None:
    assert trace_export(environ) == (wanted, None)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "zipkin"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({**AT, "OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({**AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({**AT, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "http/json"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "secret@host:4318"}, "http://"),
        ({"OTEL_TRACES_EXPORTER": "x" * 10_000}, "OTEL_TRACES_EXPORTER"),
    ],
)
def test_an_exporter_that_there_is_not_turns_tracing_off_and_is_named(environ: dict[str, str], named: str) -> None:
    on, problem = trace_export(environ)
    assert not on
    assert problem is not None and named in problem and "secret" not in problem
    assert len(problem) < 500
