"""Hosts (sections 5 and 8), one file per kind; each sits on the host port of its node's NI. `host` chooses."""
