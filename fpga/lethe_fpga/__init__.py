"""Bitstreams: a self-test of NIs and a discarding fabric on a board."""
