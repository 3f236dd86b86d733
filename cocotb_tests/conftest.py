"""Options of the lockstep tests."""


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=None, metavar="N", help="lockstep: N drawn systems instead of CI's")


def pytest_generate_tests(metafunc):
    """``seed`` runs over CI's ten systems, two of every topology, or over ``--seeds N``."""
    if "seed" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_matrix"):
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") or 10))


def pytest_terminal_summary(terminalreporter):
    """What tests have to tell, whichever worker ran them."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "told" and report.when == "call":
                    terminalreporter.write_line(f"\n{report.nodeid}\n{value}")
