"""Texts that become code, or hide what they are, where a page is put together without care; and a source full of them.

Every object stands there once for each text, and once more with texts that name their field, so that a test can tell
that a field was shown.
"""

from __future__ import annotations

import threading
from datetime import timedelta

from goscheduler import Limit, current_run
from goscheduler.alerts import Alert, Alerts, Failures
from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.errors import MessageRejected
from goscheduler.locks import acquire
from goscheduler.locks.memory import MemoryLocks
from goscheduler.messages import Message, MessageScheduler
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.periodic import Schedule, ScheduleRegistry

#: A page that has such an element, or an element with such an attribute, has taken a text for markup.
ELEMENT, ATTRIBUTE = "was-markup", "was-attribute"

HOSTILE = (
    f"<img src=x onerror=alert(1)><{ELEMENT}>",
    f'"><script>alert(1)</script><{ELEMENT}>',
    f"'-alert(1)-' {ATTRIBUTE}='",
    "{{7*7}}${7*7}<%= 7*7 %>{% raw %}",
    f"</title><script>alert(1)</script><{ELEMENT}>",
    f"</textarea></pre></option></svg><svg onload=alert(1)><{ELEMENT}>",
    f'" hx-get="/settings" hx-trigger="load" hx-on:load="alert(1)" {ATTRIBUTE}="',
    f"--><style>*{{display:none}}</style><base href=//evil.example><{ELEMENT}>",
    "javascript:alert(1)//",
    "//evil.example/%2e%2e/?x=1&y#z",
    "&lt;b&gt; &#60;script&#62;",
    '=HYPERLINK("//evil.example")',
    # What cannot be seen; ids and names take none of it.
    "invoice\u202egpj.exe\u200b\u2066",
    "\x1b[31mred\x1b[0m\x1b]8;;javascript:alert(1)\x07link",
    f"a\r\nSet-Cookie: hostile=1\r\n\r\n<{ELEMENT}>",
)
#: All that breaks out of a text in one.
POLYGLOT = " ".join(HOSTILE[:11])
FIELDS = (
    "job", "name", "tag", "task", "description", "argument", "metadata", "result", "progress", "kind", "error", "frame",
    "limit", "executor", "actor", "reason", "event", "payload", "property", "refusal", "lock", "collection",
    "document", "alert", "host", "schedule", "live", "refused",
)  # fmt: skip


def of(field):
    """Return the hostile text of a field."""
    assert field in FIELDS
    return f"{field}'><{ELEMENT}>\" {ATTRIBUTE}=\"{{{{7*7}}}}"


def seen(text):
    """Return a text without the characters that no id may have."""
    return "".join(character for character in text if character.isprintable())


def tell(result="done", progress="half", *_):
    """Report progress, and return a text."""
    current_run().progress(0.5, progress)
    return result


def fail_as(kind, message, frame, *_):
    """Fail with an error of which type, message and traceback have texts."""
    space = {}
    exec(compile("def fail(error):\n    raise error", frame, "exec"), space)
    exec(compile("def call(*args):\n    fail(*args)", "/lib/site-packages/others.py", "exec"), space)  # shown folded
    space["call"](type(kind, (ValueError,), {})(message))


class Held:
    """A run that goes on until a test is over."""

    def __init__(self):
        self.has_begun, self.is_over = threading.Event(), threading.Event()

    def run(self):
        current_run().progress(0.5, of("live"))
        self.has_begun.set()
        self.is_over.wait()


def refuse(event_name, message):
    """Deliver no message, and say so."""
    raise MessageRejected(of("refusal"))


def hostile_source(scheduler):
    """Return a source on which every text is hostile."""
    source = _fronts(scheduler)
    for text in HOSTILE:
        once = seen(text)
        told = {"name": once, "description": once, "metadata": {once: once}}
        common = {**told, "tags": [once], "limits": [Limit(once, 9)]}
        add = scheduler.add_job
        add(fail_as, "interval", minutes=1, id=f"fail {once}", args=[text] * 3, dead_letter=True, **common)
        add(tell, "interval", minutes=1, id=once, args=[text, text], **common)
    _labelled(scheduler)
    scheduler.advance(timedelta(minutes=1))
    _acts(source)
    names = [of("alert"), *(seen(text)[:100] for text in HOSTILE)]
    Alerts(scheduler, [Alert(name, [Failures(1)], to=["nobody"]) for name in names], {"nobody": tell}).evaluate()
    return source


def _labelled(scheduler):
    add, task = scheduler.add_job, of("task")
    scheduler.register(task, tell)
    add(task, "interval", minutes=1, id=of("job"), name=of("name"), tags=[of("tag")], description=of("description"),
        args=[of("result"), of("progress"), of("argument")], metadata={"x": of("metadata")},
        limits=[Limit(of("limit"), concurrency=2, rate="1000/1m")])  # fmt: skip
    add(fail_as, "interval", minutes=1, id=f"fail {of('job')}", args=[of("kind"), of("error"), of("frame")],
        dead_letter=True)  # fmt: skip
    add(tell, "interval", minutes=1, id="nobody", args=["x"], executor=of("executor"))


def _fronts(scheduler):
    messages = MessageScheduler(scheduler=scheduler, transport=refuse, workers=0)
    messages.start()
    now = scheduler.clock.now()
    registry, locks = ScheduleRegistry(), MemoryLocks(scheduler.clock)
    for number, text in enumerate((*HOSTILE, of("event"))):
        once = seen(text)
        content = (of("payload"), {"x": of("property")}) if text == of("event") else (text, {once: once})
        messages.schedule(Message(once, *content, now + timedelta(hours=1 + number), id=f"m {once}"))
        messages.schedule(Message(once, {text: text}, {}, now, id=f"dead {once}"))
        registry.register(
            Schedule(id=f"s-{number}", cron="0 * * * *", job="greet", description=once if number else of("schedule"))
        )  # fmt: skip
    for name in (of("lock"), *HOSTILE):
        acquire(locks, name, 3600)
    scheduler.register("greet", tell)
    scheduler.sync(registry)
    documents = [{"_id": text, "sleepUntil": now, "interval": text} for text in (of("document"), *HOSTILE)]
    malformed = [{"_id": text, "sleepUntil": text} for text in HOSTILE]
    return Source(
        scheduler, messages=messages, schedules=registry, locks=locks,
        documents={of("collection"): MemoryDocumentStore(documents), POLYGLOT: MemoryDocumentStore(malformed)},
    )  # fmt: skip


def _acts(source):
    """Pause jobs for reasons, as people who have names, and try to do what is refused."""
    operations = Operations(source)
    acts = [(of("actor"), of("reason"), of("job")), *((text, text, text) for text in HOSTILE[:12])]
    for actor, reason, job_id in acts:
        principal = Principal(seen(actor), Role.ADMIN, see_arguments=True)
        operations.call("pause_jobs", principal, {"ids": [job_id, of("refused")], "reason": reason})
