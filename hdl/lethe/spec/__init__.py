"""What both implementations must agree on, and nothing else (standard library only).

`wire` says what is on the wire, `events` what can be seen happening, `random` how chance is drawn,
`topology` who is connected to whom, `config` how a system is described.  RTL layouts, golden-model
arrays, the pipeline's schema and the tables in ``docs/`` all derive from these modules.
"""
