"""Concurrent, interrupted, very long calls, and calls without memory."""
