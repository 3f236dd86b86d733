"""The programs of `lethe_sim.workloads.kernel`; each module has one as KERNEL."""
