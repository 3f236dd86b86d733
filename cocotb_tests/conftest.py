"""Options of the lockstep tests."""

from tests.helpers.tiers import but


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=None, metavar="N", help="lockstep: N drawn systems instead of CI's")


def pytest_generate_tests(metafunc):
    """``seed`` is that of one system, of five with every push, of all with ``--full``, or below ``--seeds N``."""
    if "seed" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_matrix"):
        wanted, of = metafunc.config.getoption("--seeds"), metafunc.module
        metafunc.parametrize("seed", range(wanted) if wanted else but([of.FIRST], range(of.SEEDS), push=of.QUICK))


def pytest_terminal_summary(terminalreporter):
    """What tests have to tell, whichever worker ran them."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "told" and report.when == "call":
                    terminalreporter.write_line(f"\n{report.nodeid}\n{value}")
