"""The store on Redis."""

from goscheduler.jobstores.redis.store import RedisJobStore

__all__ = ["RedisJobStore"]
