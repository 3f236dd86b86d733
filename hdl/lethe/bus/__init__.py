"""Buses of hosts: AXI4-Stream for datagrams, AXI4-Lite for registers."""
