"""Calls and comparisons that several tests share."""
