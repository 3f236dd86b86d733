"""The network interface (section 4), one file per part; `ni` puts them in order."""
