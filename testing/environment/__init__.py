"""Processes, devices, the installed package and the pages of the documentation."""
