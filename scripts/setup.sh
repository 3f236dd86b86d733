# Sourced by the scripts beside it, from the root of the clone: a virtual environment with Lethe and its tools,
# first on PATH.  It is made once, in .venv (or where LETHE_VENV says), and again when the requirements change.

venv=${LETHE_VENV:-.venv}

if [ ! -x "$venv/bin/python" ]; then
  python=""
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  if [ -z "$python" ]; then
    echo "setup: Lethe needs Python 3.11 or later and none was found; install one, or name it: PYTHON=/path/to/python" >&2
    exit 3
  fi
  echo "setup: making $venv with $("$python" --version)" >&2
  if ! "$python" -m venv "$venv" >&2; then
    rm -rf "$venv"
    echo "setup: $python cannot make a virtual environment; Debian: apt-get install python3-venv" >&2
    exit 3
  fi
fi
PATH="$(cd "$venv" && pwd)/bin:$PATH"
export PATH

# An environment that LETHE_VENV names is its owner's to fill.
if [ -z "${LETHE_VENV:-}" ]; then
  extras=test,registers
  command -v java >/dev/null 2>&1 || [ -n "${JAVA_HOME:-}" ] || extras=test,registers,java
  wanted=$(cat pyproject.toml requirements.lock | cksum)" $extras"
  if [ "$(cat "$venv/lethe-installed" 2>/dev/null)" != "$wanted" ]; then
    echo "setup: installing Lethe and its tools (about a minute and 2 GB, once)" >&2
    # uv is quicker than pip, but knows neither pip's configuration nor every platform.
    {
      python -m pip install --quiet --disable-pip-version-check --no-compile uv &&
        python -m uv pip install --quiet --constraint requirements.lock --editable ".[$extras]"
    } >&2 || python -m pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock \
      --editable ".[$extras]" >&2
    printf '%s' "$wanted" >"$venv/lethe-installed"
  fi
fi

# Byte code is kept even where it is switched off, but in the environment, not beside the sources: the tests start
# Python hundreds of times, and each start compiles the project's sources anew otherwise.
unset PYTHONDONTWRITEBYTECODE
PYTHONPYCACHEPREFIX=$(cd "$venv" && pwd)/bytecode
export PYTHONPYCACHEPREFIX
