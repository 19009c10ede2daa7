"""`splitserve check` that does not wait for counters of stand-ins, which are there at once."""

from components.release import probe
from tools.gpu.check import app

if __name__ == "__main__":
    probe.SETTLE_LIMIT_S, probe.SETTLED_LIMIT_S = 0.5, 0.2
    app()
