"""Functions by name: what a registry answers, what it refuses, and whom it tells."""

from __future__ import annotations

import gc
import logging
import math
import pickle
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler import tasks
from goscheduler.errors import InvalidArgument
from goscheduler.tasks import TaskRegistry, UnknownTask, resolve, restore, task


def mail() -> None: ...


def other_mail() -> None: ...


def generates() -> Iterator[int]:
    yield 1


async def generates_later() -> Any:
    yield 1


class Mailer:
    def send(self) -> None: ...

    def __len__(self) -> int:
        return 0  # a callable may be false

    def __call__(self) -> None: ...


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> TaskRegistry:
    """A registry in place of the one that all tests of this process share."""
    registry = TaskRegistry()
    monkeypatch.setattr(tasks, "PROCESS_TASKS", registry)
    return registry


@pytest.fixture
def own(process: TaskRegistry) -> TaskRegistry:
    return TaskRegistry(process)


def test_a_task_is_found_under_its_name_and_its_aliases(process: TaskRegistry) -> None:
    assert task("sendEmail", aliases=["send_email", "mail.send"])(mail) is mail
    assert [process.find(name) for name in ("sendEmail", "send_email", "mail.send", "sendemail")] == [mail] * 3 + [None]


def test_what_a_scheduler_has_registered_goes_before_what_the_process_has(
    process: TaskRegistry, own: TaskRegistry
) -> None:
    task("mail", aliases=["old"])(mail)
    assert own.find("mail") is mail
    own.put(("mail",), other_mail)
    assert (own.find("mail"), own.find("old"), process.find("mail")) == (other_mail, other_mail, mail)


def test_a_name_goes_before_an_alias_whichever_came_first(process: TaskRegistry) -> None:
    process.put(("first", "shared"), mail)
    process.put(("shared",), other_mail)
    process.put(("last", "shared"), mail)
    assert process.find("shared") is other_mail


def test_an_alias_follows_its_task_to_a_new_function(process: TaskRegistry) -> None:
    process.put(("mail", "old"), mail)
    process.put(("mail",), other_mail)
    assert process.find("old") is other_mail


def test_a_task_that_is_registered_again_is_replaced_and_that_is_logged(
    process: TaskRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goscheduler.tasks")
    task("mail")(mail)
    task("mail")(mail)
    assert caplog.records == []
    task("mail")(other_mail)
    assert process.find("mail") is other_mail
    assert [(record.levelname, 'Task "mail"' in record.getMessage()) for record in caplog.records] == [("INFO", True)]


def test_a_callable_that_is_false_is_found_all_the_same(process: TaskRegistry, own: TaskRegistry) -> None:
    mailer = Mailer()
    own.put(("mail",), mailer)
    assert own.find("mail") is mailer
    process.put(("letter",), mailer)
    assert restore("letter").func is mailer


@pytest.mark.parametrize(
    "make",
    [lambda: mail, lambda: Mailer().send, Mailer, lambda: partial(mail), lambda: (lambda: None), lambda: print],
    ids=["function", "bound method", "instance", "partial", "lambda", "built-in"],
)
def test_the_name_of_a_registered_function_is_known(own: TaskRegistry, make: Callable[[], Any]) -> None:
    func = make()
    assert own.name_of(func) is None
    own.put(("name", "alias"), func)
    assert own.name_of(func) == "name"
    assert resolve(func, own) == (func, "name", "name")


def test_a_bound_method_is_the_task_of_its_own_object_only(own: TaskRegistry) -> None:
    registered, other = Mailer(), Mailer()
    own.put(("send",), registered.send)
    assert own.name_of(registered.send) == "send"
    assert own.name_of(other.send) is None


def test_a_function_has_no_name_when_its_name_leads_to_another(process: TaskRegistry, own: TaskRegistry) -> None:
    process.put(("mail",), mail)
    assert own.name_of(mail) == "mail"
    own.put(("mail",), other_mail)
    assert own.name_of(mail) is None
    process.put(("mail",), print)
    assert process.name_of(mail) is None


def test_a_replaced_function_is_forgotten(process: TaskRegistry) -> None:
    first = Mailer()
    gone = weakref.ref(first)
    process.put(("mail",), first)
    process.put(("mail",), mail)
    del first
    gc.collect()
    assert gone() is None
    assert process._names_by_function.keys() == {id(mail)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "must not be empty"),
        ("x" * 256, "at most 255 characters"),
        ("a\nb", "must be printable"),
        ("a\0b", "must be printable"),
        ("\ud800", "must be printable"),
        ("\u202eabc", "must be printable"),
        ("mail:send", "no colon"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_with_its_field(process: TaskRegistry, name: str, words: str) -> None:
    for call, field in ((partial(task, name), "name"), (partial(task, "fine", aliases=[name]), "aliases")):
        with pytest.raises(InvalidArgument, match=words) as refused:
            call()
        assert (refused.value.field, refused.value.value) == (field, name)
        assert len(str(refused.value)) < 250
    assert process.find("fine") is None


@pytest.mark.parametrize("name", [None, 5, b"mail", ["mail"]])
def test_a_name_that_is_no_string_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        task(name)


def test_a_decorator_without_a_name_is_refused_and_says_how_it_is_written() -> None:
    with pytest.raises(TypeError, match=r'task\("name"\)'):
        task(mail)  # type: ignore[arg-type]


@pytest.mark.parametrize("aliases", ["send_email", 5, None])
def test_aliases_that_are_no_collection_are_refused(aliases: Any) -> None:
    with pytest.raises(TypeError, match="aliases must be a collection of names"):
        task("mail", aliases=aliases)


@pytest.mark.parametrize("func", [5, None, "math:sqrt", generates, generates_later])
def test_what_cannot_be_called_to_any_effect_is_refused(process: TaskRegistry, func: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a callable|must not be a generator function"):
        task("mail")(func)
    assert process.find("mail") is None


def test_a_registration_changes_the_edition_and_tells_every_registry_that_sees_it(process: TaskRegistry) -> None:
    told: list[str] = []
    registries = {name: TaskRegistry(process) for name in ("one", "two")}
    for name, registry in registries.items():
        registry.when_changed = partial(told.append, name)
    before = {name: registry.edition for name, registry in registries.items()}
    registries["one"].put(("mail",), mail)
    assert told == ["one"]
    assert [registry.edition != before[name] for name, registry in registries.items()] == [True, False]
    process.put(("mail",), mail)
    assert sorted(told) == ["one", "one", "two"]
    assert registries["two"].edition != before["two"]
    assert registries["two"].edition == registries["two"].edition


def test_a_registry_that_nobody_holds_is_forgotten(process: TaskRegistry) -> None:
    registry = TaskRegistry(process)
    registry.when_changed = partial(registry.find, "mail")  # a cycle, as a scheduler makes
    gone = weakref.ref(registry)
    del registry
    gc.collect()
    assert gone() is None
    process.put(("mail",), mail)


def test_an_unknown_task_raises_when_it_is_called_and_survives_a_pickle() -> None:
    unknown = pickle.loads(pickle.dumps(UnknownTask("mail")))
    with pytest.raises(LookupError, match='no task named "mail" is registered here'):
        unknown(1, to="you")
    assert repr(unknown) == "<unknown task 'mail'>"


RESOLVED = [
    ("mail", (mail, "mail", "mail")),
    ("old", (mail, "old", "old")),
    (mail, (mail, "mail", "mail")),
    ("math:sqrt", (math.sqrt, "math:sqrt", None)),
    (print, (print, "builtins:print", None)),
    ("mail.send", (other_mail, "mail.send", "mail.send")),
]


@pytest.mark.parametrize(("given", "target"), RESOLVED)
def test_what_a_user_gives_leads_to_a_function_its_reference_and_its_task(
    own: TaskRegistry, given: Any, target: tuple[Any, ...]
) -> None:
    own.put(("mail", "old"), mail)
    own.put(("mail.send",), other_mail)
    assert resolve(given, own) == target


def test_a_name_that_nobody_knows_is_taken_unless_it_has_a_dot_in_it(own: TaskRegistry) -> None:
    func, ref, name = resolve("sendEmail", own)
    assert isinstance(func, UnknownTask)
    assert (func.name, ref, name) == ("sendEmail",) * 3
    with pytest.raises(InvalidArgument, match=r"Invalid reference 'math\.sqrt'.*registered first"):
        resolve("math.sqrt", own)


@given(st.text(min_size=1, max_size=300))
def test_any_name_that_may_be_registered_is_found_and_restored_and_no_other(name: str) -> None:
    process = TaskRegistry()
    allowed = len(name) <= 255 and name.isprintable() and ":" not in name
    try:
        process.put(tasks.check_names(name, ()), mail)
    except InvalidArgument:
        assert not allowed
        return
    assert allowed
    assert resolve(name, process) == (mail, name, name)
    assert restore(name).task == name
