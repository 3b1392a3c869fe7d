"""Makes ``operations.proto`` of the table of operations, and Python code of both protos. Run by ``make proto``.

Field numbers stand in ``numbers.json``: a field keeps its number whatever comes and goes around it, and the number of a
field that is gone is never given again.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from goscheduler.ops import schema
from goscheduler.ops.model import Page
from goscheduler.ops.operation import Operation
from goscheduler.ops.registry import OPERATIONS
from goscheduler.rpc.names import PACKAGE, WATCHING, method_of

HERE = Path(__file__).resolve().parent
PROTOS = ("scheduler/v1/scheduler.proto", "goscheduler/v1/operations.proto")
OPERATIONS_PROTO, NUMBERS = HERE / PROTOS[1], HERE / "goscheduler/v1/numbers.json"
GENERATED = HERE.parent / "goscheduler/rpc/gen"
WIDTH = 116

HEAD = f"""\
// Everything that can be asked of goscheduler or done to it. Made by "make proto"; do not edit it.
//
// Every call needs a role: a viewer looks, an operator pauses, runs, cancels and redrives, an admin adds, changes and
// removes. An error has its kind in the trailing metadata "goscheduler-error", and the field that is wrong in
// "goscheduler-field". Moments of requests are RFC 3339 or a length of time such as "2h", which is ago, or ahead where
// only that makes sense. What a caller may not see is shown as "•••".
syntax = "proto3";

package {PACKAGE};

import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";

option go_package = "goscheduler/v1;goschedulerpb";
option java_multiple_files = true;
option java_package = "{PACKAGE}";
"""

SCALARS = {str: "string", int: "int64", float: "double", bool: "bool"}
TIMESTAMP, VALUE, STRUCT = (f"google.protobuf.{name}" for name in ("Timestamp", "Value", "Struct"))
KINDS: Mapping[type[schema.Kind], str] = {
    schema.Text: "string", schema.Choice: "string", schema.Moment: "string", schema.Whole: "int64",
    schema.Number: "double", schema.Flag: "bool", schema.Texts: "repeated string", schema.Choices: "repeated string",
}  # fmt: skip


METHODS = frozenset(method_of(operation.name, operation.acts) for operation in OPERATIONS.values())


@dataclass
class Field:
    name: str
    type: str
    comment: str = ""


@dataclass
class Message:
    name: str
    comment: str
    fields: list[Field] = field(default_factory=list)
    one_of: bool = False


class Description:
    """All messages and methods, in the order in which they are met."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.methods: list[str] = []
        for operation in OPERATIONS.values():
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        method = method_of(operation.name, operation.acts)
        request = self._request(f"{method}Request", operation)
        response = self._response(f"{method}Response", operation)
        about = f"Operation {operation.name}; needs the role {operation.role.title}."
        self.methods += ["", *comment(f"{operation.summary}\n{about}"), rpc(method, request, response)]
        for watch in (name for name, watched in WATCHING.items() if watched == operation.name):
            text = f"Send what {method} returns, at once and whenever it has changed.\n{about}"
            self.methods += ["", *comment(text), rpc(watch, request, f"stream {response}")]

    def _request(self, name: str, operation: Operation) -> str:
        fields = [
            Field(param.name, type_of_param(param), getattr(param.kind, "help", "") + choices_of(param.kind))
            for param in operation.params
        ]
        self._put(Message(name, "", fields))
        return name

    def _response(self, name: str, operation: Operation) -> str:
        hint = get_type_hints(operation.function)["return"]
        if is_dataclass(hint) or is_page(hint):
            return self._message_of(hint)
        if get_origin(hint) in (Union, UnionType):
            choice = [self._message_of(each) for each in get_args(hint)]
            self._put(Message(name, "", [Field(each.lower(), each) for each in choice], one_of=True))
        elif get_origin(hint) is list:
            self._put(Message(name, "", [Field("items", self._type_of(hint))]))
        else:
            self._put(Message(name, "", [Field("value", self._type_of(hint))]))
        return name

    def _message_of(self, hint: Any) -> str:
        """Return the name of the message of a view, and add it if it is new."""
        view, rows = get_origin(hint) or hint, get_args(hint)
        name = (rows[0].__name__ if rows else "") + view.__name__.removesuffix("View")
        name = view.__name__ if name in METHODS else name  # a service takes it for its method
        if name not in self.messages:
            message = Message(name, first_sentence(view))
            self._put(message)
            comments = comments_of(view)
            hints = get_type_hints(view)
            message.fields += [
                Field(each, self._type_of(with_rows(hints[each], view, rows)), comments.get(each, ""))
                for each in view.__dataclass_fields__
            ]
        return name

    def _type_of(self, hint: Any) -> str:
        arguments = [each for each in get_args(hint) if each is not NoneType]
        if get_origin(hint) in (Union, UnionType):
            inner = self._type_of(arguments[0])
            return inner if inner.startswith(("map", "repeated")) or "." in inner else f"optional {inner}"
        if get_origin(hint) in (list, tuple, Sequence, SEQUENCE):
            return f"repeated {self._type_of(arguments[0])}"
        if get_origin(hint) in (dict, Mapping, MAPPING):
            return STRUCT if arguments[1] is Any else f"map<string, {self._type_of(arguments[1])}>"
        if is_dataclass(hint):
            return self._message_of(hint)
        return {datetime: TIMESTAMP, Any: VALUE, **SCALARS}[hint]

    def _put(self, message: Message) -> None:
        assert message.name not in self.messages, f"two messages are called {message.name}"
        self.messages[message.name] = message


SEQUENCE, MAPPING = get_origin(Sequence[int]), get_origin(Mapping[int, int])


def is_page(hint: Any) -> bool:
    return isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Page)


def with_rows(hint: Any, view: Any, rows: Sequence[Any]) -> Any:
    """Return the hint of a field, with the type of the rows where a page has rows of any type."""
    if not getattr(hint, "__parameters__", ()):
        return hint
    given = rows or next(get_args(base) for base in view.__orig_bases__ if get_args(base))
    return hint[tuple(given)]


def type_of_param(param: schema.Param) -> str:
    kind = param.kind
    if isinstance(kind, schema.JsonValue):
        return STRUCT if kind.type == "object" else VALUE
    found = KINDS[type(kind)]
    return found if param.required or found.startswith("repeated") else f"optional {found}"


def choices_of(kind: schema.Kind) -> str:
    return f" One of {', '.join(kind.words)}." if isinstance(kind, schema.Choice) else ""


def first_sentence(view: Any) -> str:
    return inspect.getdoc(view).partition("\n")[0]


def comments_of(view: Any) -> dict[str, str]:
    """Return the texts below the fields of a dataclass, by field."""
    found: dict[str, str] = {}
    for base in reversed(view.__mro__[:-1]):
        if is_dataclass(base):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
            found.update(texts_below(body))
    return found


def texts_below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, following in pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            yield statement.target.id, " ".join(following.value.value.split())


def comment(text: str, indent: str = "  ") -> list[str]:
    text = re.sub(r"\bNone\b", "unset", text.replace("``", ""))
    text = text[:1].upper() + text[1:]
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, WIDTH)]
    return [f"{indent}// {line}" for line in lines]


def rpc(method: str, request: str, response: str) -> str:
    return f"  rpc {method}({request}) returns ({response});"


def numbered(messages: Mapping[str, Message], known: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the number of every field that is or was: those that are known, and the next ones for new fields."""
    numbers = {name: dict(fields) for name, fields in known.items()}
    for message in messages.values():
        of_message = numbers.setdefault(message.name, {})
        for each in message.fields:
            of_message.setdefault(each.name, max(of_message.values(), default=0) + 1)
    return numbers


def text_of(description: Description, numbers: Mapping[str, Mapping[str, int]]) -> str:
    """Return the text of the proto."""
    service = ["// OperationsService has a method for each operation.", "service OperationsService {"]
    lines = [HEAD, *service, *description.methods[1:], "}"]
    for message in description.messages.values():
        lines += ["", *comment(message.comment, ""), *message_lines(message, numbers[message.name])]
    return "\n".join(lines) + "\n"


def message_lines(message: Message, numbers: Mapping[str, int]) -> Iterator[str]:
    gone = {name: number for name, number in numbers.items() if name not in {each.name for each in message.fields}}
    if not message.fields and not gone:
        yield f"message {message.name} {{}}"
        return
    yield f"message {message.name} {{"
    if gone:
        yield f"  reserved {', '.join(map(str, gone.values()))};"
        yield f"  reserved {', '.join(map(json.dumps, gone))};"
    indent = "    " if message.one_of else "  "
    if message.one_of:
        yield "  oneof result {"
    for each in message.fields:
        yield from comment(each.comment, indent)
        yield f"{indent}{each.type} {each.name} = {numbers[each.name]};"
    if message.one_of:
        yield "  }"
    yield "}"


def described() -> tuple[str, str]:
    """Return what ``operations.proto`` and ``numbers.json`` have to be."""
    known = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    description = Description()
    numbers = numbered(description.messages, known)
    return text_of(description, numbers), json.dumps(numbers, indent=1) + "\n"


def compiled() -> dict[str, str]:
    """Return the Python code of both protos: file name → text. Its imports are those of the package it goes into."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        wellknown = files("grpc_tools") / "_proto"
        code = protoc.main(["protoc", f"-I{HERE}", f"-I{wellknown}", *outputs, *PROTOS])
        if code:
            sys.exit(f"protoc ended with {code}")
        return {path.name: rewritten(path.read_text()) for path in sorted(Path(folder).rglob("*.py*"))}


def rewritten(text: str) -> str:
    for proto in PROTOS:
        folder = proto.rpartition("/")[0].replace("/", ".")
        text = text.replace(f"from {folder} import", "from goscheduler.rpc.gen import")
        text = text.replace(f"'{folder}.", "'goscheduler.rpc.gen.")
    return text


def write(show: Callable[[str], None] = print) -> None:
    text, numbers = described()
    OPERATIONS_PROTO.write_text(text, encoding="utf-8")
    NUMBERS.write_text(numbers, encoding="utf-8")
    for name, code in compiled().items():
        (GENERATED / name).write_text(code, encoding="utf-8")
        show(f"goscheduler/rpc/gen/{name}")


if __name__ == "__main__":
    write()
