"""Scenarios of a client: functions that raise when something is not as it should be. One line of JSON a scenario on standard output."""

import json
import signal
import sys
import time
import traceback

SCENARIO_SECONDS = 60
SCENARIOS = []


def scenario(name):
    def add(function):
        SCENARIOS.append((name, function))
        return function

    return add


def until(what, seconds, holds):
    end = time.monotonic() + seconds
    while True:
        if holds():
            return
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")


def same(got, expected):
    if got != expected:
        raise AssertionError(f"expected {expected!r}, got {got!r}")


def late(_signal, _frame):
    raise TimeoutError(f"not within {SCENARIO_SECONDS} s")


def run():
    signal.signal(signal.SIGALRM, late)
    for name, function in SCENARIOS:
        outcome = {"name": name, "status": "passed"}
        signal.alarm(SCENARIO_SECONDS)
        try:
            function()
        except BaseException as error:  # every way to fail is told
            outcome = {"name": name, "status": "failed", "detail": "".join(traceback.format_exception(error))[-1500:]}
        finally:
            signal.alarm(0)
        print(json.dumps(outcome), flush=True)
    # Threads of clients that a failed scenario left behind must not keep the program.
    sys.stdout.flush()
