"""Links and routers (sections 2 and 3), one file per part; `fabric` has their memory."""
