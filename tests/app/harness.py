"""Runs the tessera program under mpirun for the tests of the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out + self.err


class Program(unittest.TestCase):
    """A test case with a folder of its own. The program's path and the repository's root are the script's arguments."""

    program = ""
    source = ""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tessera_test_")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def start(self, ranks, *arguments):
        command = ["mpirun", "-n", str(ranks), self.program, *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def run_program(self, ranks, *arguments, timeout=120):
        process = self.start(ranks, *arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill(process)
            out, err = process.communicate()
            self.fail(f"no end within {timeout} s on {ranks} ranks: {' '.join(arguments)}\n{out}{err}")
        return Result(process.returncode, out, err)

    def run_well(self, ranks, *arguments, timeout=120):
        result = self.run_program(ranks, *arguments, timeout=timeout)
        self.assertEqual(result.code, 0, result.text)
        return result

    def history(self, run, key="loss"):
        """{step: value} of the lines that have the key."""
        with open(self.path(run, "history.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        return {line["step"]: line[key] for line in lines if key in line}

    def assert_close(self, a, b, relative):
        self.assertEqual(a.keys(), b.keys())
        for step in a:
            self.assertLessEqual(abs(a[step] - b[step]), relative * abs(b[step]), f"step {step}: {a[step]} and {b[step]}")


def kill(process):
    """kill -9 of the launcher and all ranks at once."""
    os.killpg(process.pid, signal.SIGKILL)
    subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
    process.wait()


def rank_process(launcher, rank):
    """The process id of one rank of a run, once it is there."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for entry in os.listdir("/proc"):
        try:
            if not entry.isdigit() or os.readlink(f"/proc/{entry}/exe") != os.path.realpath(Program.program):
                continue  # the launcher hands its environment on to helpers, too
            if os.getsid(int(entry)) == launcher.pid:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        return int(entry)
        except OSError:
            pass  # it has ended meanwhile
    return None


class Slowed:
    """Lets a process run only a third of the time, in turns of a few milliseconds."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        try:
            while not self.over.is_set():
                for signal_number, seconds in ((signal.SIGSTOP, 0.006), (signal.SIGCONT, 0.003)):
                    os.kill(self.pid, signal_number)
                    time.sleep(seconds)
        except ProcessLookupError:
            pass


def wait_for(condition, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def main():
    Program.source = sys.argv.pop()
    Program.program = sys.argv.pop()
    unittest.main(verbosity=2)
