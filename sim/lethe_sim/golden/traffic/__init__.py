"""Hosts (sections 5 and 8), one file per kind; each sits on the port at the top of its node's stack. `host` chooses."""
