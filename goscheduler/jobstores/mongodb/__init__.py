"""The store on MongoDB."""

from goscheduler.jobstores.mongodb.store import MongoDBJobStore

__all__ = ["MongoDBJobStore"]
