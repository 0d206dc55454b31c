"""Ranks that stop answering, disks that fill up, folders with an earlier run: the program ends, and says why."""

import json
import os
import resource
import signal
import subprocess
import time

from harness import Program, kill, main, wait_for

SIMULATION = """
simulate:
  type: shallow_water
  grid: [24, 20]
  lengths: [24, 20]
  sides: {y: wall, x: periodic}
  initial: {type: bumps, level: 1, count: 2, amplitude: 0.2, width: 3}
  every: 1
  steps: STEPS
output: {trajectories: 3, split: {train: 2, valid: 1, test: 0}}
"""

TRAINING = """
data: {path: data_run, output: {residual: {lag: 1}}}
model: {type: convnet, patch: 2, dim: 8, depth: 1}
train: {steps: 6, optimizer: {type: adamw, lr: 1e-3}}
"""


def ranks_of(process):
    """Process numbers in the order of the ranks."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]


class Failures(Program):
    def simulate(self, folder, steps, ranks=1, *overrides):
        return self.run_well(ranks, "simulate", self.write("simulate.yaml", SIMULATION.replace("STEPS", str(steps))),
                             "-d", folder, "--quiet", *overrides)

    def train(self, *overrides, ranks=1):
        return self.run_well(ranks, "train", self.write("train.yaml", TRAINING), "-d", "run", "--quiet", *overrides)

    def steps_in(self, *parts):
        return sorted(int(name.split("_")[1]) for name in os.listdir(self.path(*parts)))

    def stop_rank_one(self, growing, *arguments):
        """Freezes rank 1 of 3 once `growing` has content; the code and the text of the run's end."""
        os.environ["TESSERA_TIMEOUT_SECONDS"] = "4"
        self.addCleanup(os.environ.pop, "TESSERA_TIMEOUT_SECONDS")
        process = self.start(3, *arguments)
        self.assertTrue(wait_for(lambda: os.path.exists(growing) and os.path.getsize(growing) > 0, 60))
        time.sleep(0.5)
        os.kill(ranks_of(process)[1], signal.SIGSTOP)
        try:
            out, err = process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            kill(process)
            self.fail("no end after a rank was stopped")
        return process.returncode, out + err

    def test_a_frozen_rank_of_a_training_is_named(self):
        self.simulate("data_run", 12)
        deck = self.write("train.yaml", TRAINING)
        code, text = self.stop_rank_one(self.path("run", "history.jsonl"), "train", deck, "-d", "run", "--quiet",
                                        "mesh.domain=3", "train.steps=1000000")
        self.assertEqual(code, 5, text)
        self.assertRegex(text, r"not arrived: .*rank 1")

    def test_a_frozen_rank_of_a_simulation_is_named(self):
        deck = self.write("simulate.yaml", SIMULATION.replace("STEPS", "100000"))
        code, text = self.stop_rank_one(self.path("run", "data", "train", "trajectory_00000.hdf5.partial"), "simulate",
                                        deck, "-d", "run", "--quiet", "mesh.domain=3")
        self.assertEqual(code, 5, text)
        self.assertRegex(text, r"not arrived: .*rank 1")

    def test_a_full_disk_ends_the_run(self):
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20, 32 << 20))

        deck = self.write("simulate.yaml", SIMULATION.replace("STEPS", "40"))
        for ranks in (2, 3):
            run = f"run{ranks}"
            command = ["mpirun", "-n", str(ranks), self.program, "simulate", deck, "-d", run, "--quiet", "simulate.grid=[512, 512]"]
            end = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
                                 preexec_fn=limit_files)
            self.assertEqual(end.returncode, 3, end.stderr)
            self.assertIn("trajectory_00000.hdf5", end.stderr)
            self.assertEqual(os.listdir(self.path(run, "data", "train")), [])

    def test_a_second_run_in_the_folder_is_refused(self):
        self.simulate("data_run", 12)
        deck = self.write("train.yaml", TRAINING)
        first = self.start(1, "train", deck, "-d", "run", "train.steps=1000000", "--quiet")
        self.addCleanup(lambda: first.poll() is None and kill(first))
        history = self.path("run", "history.jsonl")
        self.assertTrue(wait_for(lambda: os.path.exists(history) and os.path.getsize(history), 30))
        with open(self.path("run", "run.lock")) as file:
            owner = file.read().strip()
        self.assertRegex(owner, r"process \d+ on .")
        before = os.path.getsize(history)
        for how in ("--force",), ("-r", "latest"), ():
            second = self.run_program(1, "train", deck, "-d", "run", *how)
            self.assertEqual(second.code, 2, second.text)
            self.assertIn(f"another run works in this folder ({owner})", second.err)
        # Nothing was taken away from the first run, and its lock goes with it, however it ends.
        self.assertTrue(wait_for(lambda: os.path.getsize(history) > before, 30))
        kill(first)
        self.assertTrue(os.path.exists(self.path("run", "run.lock")))
        self.run_well(1, "train", deck, "-d", "run", "--force", "--quiet")
        self.assertFalse(os.path.exists(self.path("run", "run.lock")))
        # A folder that holds nothing but what a killed run left is as good as empty.
        os.makedirs(self.path("fresh"))
        self.write("fresh/run.lock", owner)
        self.run_well(1, "train", deck, "-d", "fresh", "--quiet")

    def test_force_starts_a_run_of_its_own(self):
        self.simulate("data_run", 12)
        self.train("train.steps=9")
        self.write("run/checkpoints/notes.txt", "not ours")
        self.train("train.steps=4", "--force")
        self.assertEqual(max(self.steps_in("run", "best")), 4)
        self.train("train.steps=5", "-r", "latest")
        self.assertEqual(sorted(self.history("run")), [1, 2, 3, 4, 5])
        self.assertTrue(os.path.exists(self.path("run", "checkpoints", "notes.txt")))

    def test_an_earlier_step_leaves_no_later_ones(self):
        self.simulate("data_run", 12)
        self.train("checkpoint.every=2")
        self.train("-r", "4", "train.steps=5")
        self.assertLessEqual(max(self.steps_in("run", "checkpoints")), 5)
        with open(self.path("run", "summary.json")) as file:
            best = json.load(file)["best_update"]
        self.assertEqual(self.steps_in("run", "best"), [best])

    def test_force_leaves_no_outputs_of_another_run(self):
        self.simulate("data_run", 12)
        self.train()
        deck = self.write("predict.yaml", "predict: {run: run, split: valid}")
        self.run_well(2, "predict", deck, "-d", "forecast", "--quiet", "mesh.ddp=2", "mesh.domain=1")
        self.write("forecast/prediction/mine.hdf5", "not ours")
        self.run_well(1, "predict", deck, "-d", "forecast", "--quiet", "--force", "predict.baselines=[persistence, persistence]")
        self.assertEqual(sorted(os.listdir(self.path("forecast", "prediction"))),
                         ["mine.hdf5", "part_00000.hdf5", "part_00000.xdmf"])
        self.simulate("data_run", 12, 1, "--force", "output.trajectories=1", "output.split={train: 1, valid: 0, test: 0}")
        self.assertEqual(os.listdir(self.path("data_run", "data", "valid")), [])
        self.assertEqual(len(os.listdir(self.path("data_run", "data", "train"))), 2)


if __name__ == "__main__":
    main()
