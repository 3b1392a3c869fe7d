"""Triggers: pure rules that say when a job fires."""
