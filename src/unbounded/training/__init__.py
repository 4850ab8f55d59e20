"""Objective, loop, schedules, stop rules and checkpoints; receives a task and a model."""
