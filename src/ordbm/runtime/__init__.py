"""Threads, progress and files, whatever the work is."""
