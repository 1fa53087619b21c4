# For bash scripts that need matplotlib: source it and call find_python.

# find_python VENV: sets python to a Python that has matplotlib: PYTHON (default python3), or the virtual environment VENV, which is made if there
# is none. Empty if it cannot be had.
find_python() {
  local venv=$1 base=${PYTHON:-python3}
  for python in "$base" "$venv/bin/python"; do
    "$python" -c 'import matplotlib, PIL' 2>/dev/null && return
  done
  python=
  "$base" -c 'import venv, ensurepip' 2>/dev/null || return
  echo "matplotlib is not here: installing it into $venv"
  if "$base" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet --retries 1 --timeout 20 matplotlib; then
    python=$venv/bin/python
  else
    rm -rf "$venv"
  fi >/dev/null 2>&1
}
