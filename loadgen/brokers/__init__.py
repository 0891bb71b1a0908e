"""Queues that messages are put into and taken from."""
