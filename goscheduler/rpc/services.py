"""Adds the services to a gRPC server: event-scheduler's, the operations, and the standard one for health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message_factory import GetMessageClass

from goscheduler.ops.access import Principal
from goscheduler.ops.registry import OPERATIONS
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.rpc import seed
from goscheduler.rpc.access import Access
from goscheduler.rpc.calls import Calls, end
from goscheduler.rpc.gen import operations_pb2, scheduler_pb2
from goscheduler.rpc.health import INTERVAL as HEALTH_INTERVAL
from goscheduler.rpc.health import HealthReporter, read_health
from goscheduler.rpc.names import SEED_SERVICE, SERVICE, WATCHING, method_of
from goscheduler.rpc.watching import INTERVAL as WATCH_INTERVAL
from goscheduler.rpc.watching import Watches
from goscheduler.rpc.wire import answer_of, arguments_of, parsed

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
    from google.protobuf.message import Message

    from goscheduler.ops.operation import Operation
    from goscheduler.ops.redact import Redactor
    from goscheduler.rpc.calls import Ask
    from goscheduler.schedulers.base import BaseScheduler

#: So many streams a server of the user's has at most: each occupies one of its threads.
MOST_WATCHES = 4
#: For whom the standard service asks for the health.
PROBE = Principal("health")

Answer = Callable[[bytes, "Ask"], "Message"]


def register(
    server: Any, source: Source | BaseScheduler, *, principal: Callable[[Any], Principal | None] | None = None,
    authenticate: Callable[[str], Principal] | None = None, certificate: Callable[[str], Principal] | None = None,
    redactor: Redactor | None = None, most_watches: int = MOST_WATCHES, watch_interval: float = WATCH_INTERVAL,
    health_interval: float = HEALTH_INTERVAL,
) -> Services:  # fmt: skip
    """Add all services to a ``grpc.server`` that was not started, and return them, to be stopped before the server is.

    ``principal`` returns who makes a call, by its context; ``authenticate`` by its bearer token; ``certificate`` by the
    common name of the client's certificate. Without all three only callers on this machine get in.
    """
    access = Access(principal, authenticate, certificate)
    operations = Operations(source if isinstance(source, Source) else Source(source), redactor=redactor)
    services = Services(operations, access, Watches(most_watches, watch_interval), health_interval)
    services.add_to(server)
    return services


class Services:
    """The services on one source."""

    def __init__(self, operations: Operations, access: Access, watches: Watches, health_interval: float) -> None:
        self._calls = Calls(operations, access)
        self._watches = watches
        names = ("", SEED_SERVICE, SERVICE)
        self._health = HealthReporter(lambda: read_health(_probe(operations)), names, health_interval)

    def add_to(self, server: Any) -> None:
        """Add the services to a server."""
        for name, handlers in ((SEED_SERVICE, self._seed_handlers()), (SERVICE, self._operation_handlers())):
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        self._health.add_to(server)

    def stop(self) -> None:
        """Tell those who ask for the health that nothing is served any more, and end the streams."""
        self._health.stop()
        self._watches.stop()

    def _seed_handlers(self) -> Mapping[str, Any]:
        functions: dict[str, Callable[[Any, Ask], Message]] = {
            "Get": seed.get, "List": seed.list_messages, "Health": seed.health,
        }
        methods = _methods(scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"])
        return {name: self._unary(_seed_work(methods[name], function)) for name, function in functions.items()}

    def _operation_handlers(self) -> Mapping[str, Any]:
        methods = _methods(operations_pb2.DESCRIPTOR.services_by_name["OperationsService"])
        works = {method_of(operation.name, operation.acts): operation for operation in OPERATIONS.values()}
        unary = {name: self._unary(_work(methods[name], operation)) for name, operation in works.items()}
        streams = {name: self._stream(_work(methods[name], OPERATIONS[watched])) for name, watched in WATCHING.items()}
        return {**unary, **streams}

    def _unary(self, work: Answer) -> Any:
        def behave(request: bytes, context: Any) -> Message:
            return self._calls.answer(context, lambda ask: work(request, ask))

        return grpc.unary_unary_rpc_method_handler(behave, response_serializer=_serialized)

    def _stream(self, work: Answer) -> Any:
        def look(request: bytes, context: Any) -> Message:
            return self._calls.look(context, lambda ask: work(request, ask))

        def behave(request: bytes, context: Any) -> Iterator[Message]:
            try:
                yield from self._watches.changes(context, lambda: look(request, context))
            except Exception as error:
                end(context, error)

        return grpc.unary_stream_rpc_method_handler(behave, response_serializer=_serialized)


def _probe(operations: Operations) -> Ask:
    return lambda name: operations.call(name, PROBE, via="grpc")


def _methods(service: ServiceDescriptor) -> Mapping[str, MethodDescriptor]:
    return {method.name: method for method in service.methods}


def _work(method: MethodDescriptor, operation: Operation) -> Answer:
    """Return what answers a call of a method by an operation."""
    request_class, answer_class = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

    def work(request: bytes, ask: Ask) -> Message:
        arguments = arguments_of(parsed(request_class, request), operation.params)
        return answer_of(answer_class, ask(operation.name, arguments=arguments))

    return work


def _seed_work(method: MethodDescriptor, function: Callable[[Any, Ask], Message]) -> Answer:
    request_class = GetMessageClass(method.input_type)
    return lambda request, ask: function(parsed(request_class, request), ask)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
