"""One process of several that share a store: traced, and telling of its spans by lines of JSON.

``python traced_node.py URL`` runs what others have added, until its standard input is closed.
"""

from __future__ import annotations

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from goscheduler import BackgroundScheduler
from goscheduler.telemetry import instrument


class Printer(SpanExporter):
    """Prints each span."""

    def export(self, spans):
        for span in spans:
            links = [[link.attributes["scheduler.link"], f"{link.context.span_id:016x}"] for link in span.links]
            facts = {"name": span.name, "span": f"{span.context.span_id:016x}", "links": links}
            print(json.dumps({**facts, "attributes": dict(span.attributes)}), flush=True)
        return SpanExportResult.SUCCESS


def fail():
    raise ConnectionError("no route")


def current():
    return f"{trace.get_current_span().get_span_context().span_id:016x}"


def main():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Printer()))
    scheduler = BackgroundScheduler(jobstores={"default": sys.argv[1]}, timezone="UTC")
    scheduler.register("traced.fail", fail)
    instrument(scheduler, tracer_provider=provider, metrics=False)
    scheduler.start()
    print("ready", flush=True)
    sys.stdin.read()
    scheduler.shutdown()


if __name__ == "__main__":
    main()
