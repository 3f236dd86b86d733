"""Captures of links for Wireshark: messages of chosen links as pcapng, and a dissector of their wire format."""
