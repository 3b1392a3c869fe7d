"""Views of the MongoDB store that programs in any language may read: jobs, runs and messages, with dates and words.

Their fields stay as they are; if a field is to mean something else, that makes a view of another version. Times are
dates. What the store keeps as JSON text is taken apart by patterns: a letter that JSON escapes there stays escaped.
"""

from __future__ import annotations

import logging
from typing import Any

from pymongo.errors import OperationFailure

from goscheduler._drivers.mongodb import UNAUTHORISED
from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.traits import PLAIN_HEAD
from goscheduler.jobstores.mongodb.writer import Collections

VERSION = 1
_EXISTS = 48
#: The names of tasks of messages begin with this; the name of their front follows.
_MESSAGES = {"$regex": r"^goscheduler\."}
_TEXT = r'("(?:[^"\\]|\\.)*"|null)'
_TIME = r"(-?\d+|null)"
#: What a record says of its attempt: executor, number, times, outcome, reason, type of the error, message.
_ATTEMPT = rf'{_TEXT},"[a-z_ ]+",(\d+),{_TIME},{_TIME},{_TIME},\d+\.\d+,"([a-z_ ]+)",{_TEXT},{_TEXT},{_TEXT},'
_LAST_OWNER = rf"{_TEXT},{_TEXT},\d+,\d+,\d+,\d+\]$"
#: What a record, and the head of a run, begin and end with.
_NAMES = rf"^\[\d+,{_TEXT},{_TEXT},{_TEXT},{_TEXT},"
_HEAD_END = r',(\d+),"[a-z_ ]+",\d+,\d+\]$'


def make_views(collections: Collections, logger: logging.Logger) -> None:
    """Make the views, or change them to those of this version; a user who may not do so goes without."""
    database, jobs = collections.jobs.database, collections.jobs.name
    views = {"jobs": (jobs, _jobs()), "runs": (jobs, _runs(collections)), "messages": (jobs, _messages(collections))}
    there = {
        each["name"]: each["options"].get("pipeline")
        for each in database.list_collections(filter={"type": "view"})
    }
    try:
        for kind, (source, pipeline) in views.items():
            name = view_name(jobs, kind)
            if name not in there:
                _create(database, name, source, pipeline)
            elif there[name] != pipeline:
                database.command("collMod", name, viewOn=source, pipeline=pipeline)
    except OperationFailure as error:
        if error.code not in UNAUTHORISED:
            raise
        logger.warning("The user may not make the views of %s for other programs: %s", jobs, error)


def view_name(prefix: str, kind: str) -> str:
    """Return the name of a view; only collections of another name than the usual one are named in it."""
    return f"{'' if prefix == 'jobs' else prefix + '.'}goscheduler_{kind}_v{VERSION}"


def _create(database: Any, name: str, source: str, pipeline: list[Document]) -> None:
    try:
        database.create_collection(name, check_exists=False, viewOn=source, pipeline=pipeline)
    except OperationFailure as error:
        if error.code != _EXISTS:  # another process has just made it
            raise


def _jobs() -> list[Document]:
    owners = {"$setUnion": [{"$ifNull": ["$runs.owner", []]}, []]}
    return [
        {"$match": {"here": True}},
        {"$project": {
            "_id": 0,
            "id": "$_id",
            "status": {"$cond": [{"$gt": [{"$size": owners}, 0]}, "running", "$state"]},
            "name": _name(),
            "task": _task("$lane.task"),
            "function": {"$ifNull": [{"$first": _traits("calls", ":")}, None]},
            "tags": _traits("tag"),
            "executor": "$lane.executor",
            "priority": "$lane.priority",
            "due": _date("$due.at"),
            "attempts": {"$ifNull": ["$life.count", 0]},
            "owner": {"$ifNull": [{"$first": owners}, None]},
            "error": _words({"$ifNull": ["$suspended", "$life.error"]}),
            "last_outcome": {"$ifNull": ["$life.outcome", None]},
            "last_run": _date("$life.last"),
            "last_success": _date("$life.success"),
            "finished": _date("$finished"),
            "paused_by": _words("$life.paused_by"),
            "pause_reason": _words("$life.pause_reason"),
            "created": _date("$life.created"),
            "created_by": _words("$life.created_by"),
        }},
    ]  # fmt: skip


def _runs(collections: Collections) -> list[Document]:
    return [*_unfinished(), {"$unionWith": {"coll": collections.history.name, "pipeline": _ended("$outcome")}}]


def _unfinished() -> list[Document]:
    pending = {"$cond": [{"$ifNull": ["$runs.held", False]}, "blocked", "pending"]}
    return [
        {"$match": {"runs": {"$exists": True}}},
        {"$unwind": "$runs"},
        {"$project": {
            "_id": 0,
            "id": "$runs.id",
            "job_id": "$_id",
            "status": {"$cond": [{"$ifNull": ["$runs.owner", False]}, "claimed", pending]},
            "name": _name(),
            "task": _task("$runs.lane.task"),
            "executor": "$runs.lane.executor",
            "due": _date("$runs.due"),
            "attempts": _number({"$first": _captured("$runs.text", _HEAD_END)}),
            "owner": {"$ifNull": ["$runs.owner", None]},
            "cancel_reason": _words("$runs.cancel"),
            "error": None,
            "finished": None,
        }},
    ]  # fmt: skip


def _ended(status: str) -> list[Document]:
    """Return the steps that make rows of records in the history, or of dead letters."""

    def part(place: int) -> Document:
        return {"$arrayElemAt": ["$said", place]}

    error = {"$cond": [{"$in": [part(8), ['""', "null"]]}, part(6), part(8)]}
    kind = {"$cond": [{"$in": [part(7), ["null"]]}, "", {"$concat": [_words(part(7)), ": "]}]}
    return [
        {"$set": {"said": _captured("$record", _ATTEMPT), "names": _captured("$record", _NAMES)}},
        {"$project": {
            "_id": 0,
            "id": "$run_id",
            "job_id": 1,
            "status": status,
            "name": _words({"$arrayElemAt": ["$names", 2]}),
            "task": _task_of({"$arrayElemAt": ["$names", 3]}),
            "executor": _words(part(0)),
            "due": _date(_number(part(2))),
            "attempts": _number(part(1)),
            "owner": _words({"$first": _captured("$record", _LAST_OWNER)}),
            "cancel_reason": None,
            "error": {"$cond": [{"$in": [error, ["null", '""', None]]}, None, {"$concat": [kind, _words(error)]}]},
            "finished": _date("$finished"),
        }},
    ]  # fmt: skip


def _messages(collections: Collections) -> list[Document]:
    fields = {"event": "$name", "source": _source("$task"), "due": 1, "attempts": 1, "owner": 1, "error": 1}
    waiting = [
        {"$match": {"lane.task": _MESSAGES, "due": {"$exists": True}}},
        {"$project": {
            "_id": 0, "id": "$_id", "status": "pending", "event": _name(), "source": _source("$lane.task"),
            "due": _date("$due.at"), "attempts": {"$literal": 0}, "owner": None, "error": None,
        }},
    ]  # fmt: skip
    retrying = {"$cond": [{"$gt": ["$attempts", 1]}, "retrying", "pending"]}
    going = {"$cond": [{"$eq": ["$status", "claimed"]}, "delivering", retrying]}
    runs = [
        {"$match": {"runs.lane.task": _MESSAGES}},
        *_unfinished(),
        {"$project": {"id": "$job_id", "status": going, **fields}},
    ]
    dead = [
        {"$match": {"record": {"$regex": rf'{_NAMES[: -len(_TEXT) - 1]}"goscheduler\.[^":]*",'}}},
        *_ended("dead"),
        {"$project": {"id": "$job_id", "status": 1, **fields}},
    ]
    return [
        *waiting,
        {"$unionWith": {"coll": collections.jobs.name, "pipeline": runs}},
        {"$unionWith": {"coll": collections.dead.name, "pipeline": dead}},
    ]


def _name() -> Document:
    """Return the expression for the name of a job: that which the text of the job has, unless it is told beside it."""
    return {"$ifNull": ["$search.name", {"$arrayElemAt": [_captured("$definition", PLAIN_HEAD.pattern), 1]}]}


def _traits(kind: str, having: str = "") -> Document:
    """Return the expression for what the traits of a kind name; only for those that have a text in their names."""
    these = {"$regexMatch": {"input": "$$trait", "regex": f"(?s)^{kind}:.*{having}"}}
    found = {"$filter": {"input": {"$ifNull": ["$marks", []]}, "as": "trait", "cond": these}}
    name = {"$substrCP": ["$$trait", len(kind) + 1, {"$strLenCP": "$$trait"}]}
    return {"$map": {"input": found, "as": "trait", "in": name}}


def _date(micros: Any) -> Document:
    """Return the expression for the date of a number of microseconds; null where there is none."""
    return {"$convert": {"input": {"$divide": [micros, 1000]}, "to": "date", "onError": None, "onNull": None}}


def _number(text: Any) -> Document:
    return {"$convert": {"input": text, "to": "long", "onError": None, "onNull": None}}


def _captured(text: Any, pattern: str) -> Document:
    """Return the expression for the groups of a pattern in a text."""
    found = {"$regexFind": {"input": {"$ifNull": [text, ""]}, "regex": pattern}}
    return {"$let": {"vars": {"found": found}, "in": {"$ifNull": ["$$found.captures", []]}}}


def _words(text: Any) -> Document:
    """Return the expression for the words of a JSON string; null for null."""
    inner: Document = {"$substrCP": [text, 1, {"$max": [0, {"$subtract": [{"$strLenCP": text}, 2]}]}]}
    for escaped, plain in (('\\"', '"'), ("\\n", "\n"), ("\\\\", "\\")):
        inner = {"$replaceAll": {"input": inner, "find": escaped, "replacement": plain}}
    return {"$cond": [{"$in": [{"$ifNull": [text, "null"]}, ["null"]]}, None, inner]}


def _source(task: str) -> Document:
    """Return the expression for the name of the front of a task."""
    return {"$arrayElemAt": [_captured(task, r"^goscheduler\.(.*)$"), 0]}


def _task(name: str) -> Document:
    return {"$cond": [{"$in": [{"$ifNull": [name, ""]}, [""]]}, None, name]}


def _task_of(function: Any) -> Document:
    """Return the expression for a task; a function that is none has a colon in its name."""
    other = {"$regexMatch": {"input": {"$ifNull": [function, ":"]}, "regex": ":|^null$"}}
    return {"$cond": [other, None, _words(function)]}
