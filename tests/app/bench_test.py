"""`tessera bench`: every kind runs at a tiny size on one and two ranks, and says what it did. No times are looked at."""

import json
import os
import struct
import sys
import unittest

from harness import Program

OPERATORS = ["gemm", "conv", "conv-3d", "attention"]
MESSAGES = ["halo", "ring", "reduce"]
TINY = ["--repeats", "1", "--json", "bench.json"]


class Bench(Program):
    def bench(self, ranks, *arguments):
        result = self.run_well(ranks, "bench", *arguments, *TINY)
        with open(self.path("bench.json")) as file:
            return result, json.load(file)

    def check_row(self, row, ranks):
        self.assertEqual(row["ranks"], ranks)
        self.assertEqual(row["repeats"], 1)
        self.assertGreater(row["median_s"], 0)
        low, high = row["quartiles_s"]
        self.assertLessEqual(low, row["median_s"])
        self.assertLessEqual(row["median_s"], high)
        self.assertAlmostEqual(row["rate"] * row["median_s"], row["amount"], delta=1e-9 * row["amount"])
        if "limit" in row:
            self.assertAlmostEqual(row["fraction"] * row["limit"]["rate"], row["rate"], delta=1e-9 * row["rate"])

    def test_operators_solver_and_files(self):
        result, report = self.bench(2, *OPERATORS, "stencil", "io-write", "io-read", "--sizes", "2", "--partition", "even,uneven")
        rows = report["rows"]
        self.assertEqual([row["kind"] for row in rows[::3]], [*OPERATORS, "stencil", "io-write", "io-read"])
        for one, even, uneven in zip(rows[::3], rows[1::3], rows[2::3]):
            for row, ranks, partition in (one, 1, "even"), (even, 2, "even"), (uneven, 2, "uneven"):
                self.check_row(row, ranks)
                self.assertEqual(row["partition"], partition)
                self.assertEqual(row["amount"], one["amount"])
                self.assertIn("limit", row)
            self.assertNotIn("speed_up", one)
            self.assertAlmostEqual(even["efficiency"], even["speed_up"] / 2)
        self.assertEqual(rows[0]["amount"], 2 * 2**3)
        self.assertEqual(rows[3]["amount"], 6 * 9 * 64**2 * 2**2)
        for kind in [*OPERATORS, "stencil", "io-write", "io-read"]:
            self.assertEqual(result.out.count(f"\n  {kind} "), 3, result.out)
        self.assertEqual(os.listdir(self.folder), ["bench.json"])

    def test_messages(self):
        _, report = self.bench(2, *MESSAGES, "--sizes", "4")
        self.assertEqual([row["kind"] for row in report["rows"]], MESSAGES)  # one rank has nobody to talk to
        for two in report["rows"]:
            self.check_row(two, 2)
            self.assertEqual(two["amount"], 2 * 4096)
            self.assertIn("limit", two)
            self.assertNotIn("speed_up", two)

    def test_models(self):
        models = ["vit", "convnet"]
        result, report = self.bench(2, "train-step", "predict-step", "--sizes", "64", "--partition", "even,ddp",
                                    "--model", ",".join(models), "--plot", "bench.png", "--comm-stats")
        rows = report["rows"]
        self.assertEqual([(row["kind"], row["model"], row["ranks"], row["partition"]) for row in rows],
                         [("train-step", model, *how) for model in models
                          for how in ((1, "even"), (2, "even"), (2, "ddp"))]
                         + [("predict-step", model, *how) for model in models for how in ((1, "even"), (2, "even"))])
        for one, domain, ddp in (rows[:3], rows[3:6]):
            self.assertEqual(one["amount"], domain["amount"])
            self.assertEqual(2 * one["amount"], ddp["amount"])
            self.assertEqual(len(one["losses"]), 3)
            for a, b in zip(one["losses"], domain["losses"]):
                self.assertAlmostEqual(a, b, delta=1e-3 * a)
            # Half of ddp's first samples are those of one rank.
            self.assertNotEqual(one["losses"][0], ddp["losses"][0])
        self.assertIn("gradient reducer", result.out)
        with open(self.path("bench.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        _, report = self.bench(1, "train-step", "--sizes", "64", "--model", "natten")
        self.check_row(report["rows"][0], 1)
        _, report = self.bench(2, "train-step", "--sizes", "8", "--model", "convnet-3d", "--ranks", "2")
        self.check_row(report["rows"][0], 2)

    def test_the_suite(self):
        result, report = self.bench(2, "--suite", "--quick")
        figures = report["figures"]
        self.assertEqual(len({figure["figure"] for figure in figures}), len(figures))
        for figure in figures:
            self.assertEqual(figure["verdict"], "")  # small sizes
            self.assertNotIn("not measured", figure["measured"])
            self.assertIn(figure["figure"], result.out)
        for row in report["rows"]:
            self.check_row(row, row["ranks"])
        steps = {(row["model"], row["ranks"], row["partition"]) for row in report["rows"] if row["kind"] == "train-step"}
        self.assertLessEqual({("vit", 1, "even"), ("vit", 2, "even"), ("vit", 2, "ddp"), ("convnet", 2, "even"),
                              ("convnet-3d", 1, "even")}, steps)
        # One rank leaves out what needs two.
        result, report = self.bench(1, "--suite", "--quick", "--quiet")
        self.assertEqual(result.out, "")
        self.assertEqual([figure["figure"] for figure in report["figures"]], [figure["figure"] for figure in figures])
        self.assertEqual(len([f for f in report["figures"] if "needs more ranks" in f["measured"]]), 8)

    def test_saves_what_a_training_step_starts_with(self):
        self.bench(2, "train-step", "--sizes", "16", "--model", "convnet", "--partition", "ddp", "--ranks", "2",
                   "--save-case", "case")
        self.assertEqual(sorted(os.listdir(self.path("case"))), ["samples.h5", "weights.safetensors"])
        with open(self.path("case", "weights.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertEqual(header["patch_embed.weight"]["shape"], [96, 8, 4, 4])

    def test_refuses(self):
        def refused(text, *arguments, code=2):
            result = self.run_program(2, "bench", *arguments)
            self.assertEqual(result.code, code, result.text)
            self.assertEqual(result.err.count("tessera:"), 1, result.text)
            self.assertIn(text, result.err)

        refused("no kinds: expected tessera bench KIND")
        refused("unknown kind 'gem': expected gemm | conv", "gem")
        refused("unknown model 'vitt': expected vit | natten", "train-step", "--model", "vitt")
        refused("--ranks: found 3, but there are 2: start with mpirun -n 3", "gemm", "--ranks", "3")
        refused("io-write has no precision bf16: expected f32", "io-write", "--precision", "bf16")
        refused("--suite takes no kinds: found 'gemm'", "gemm", "--suite")
        refused("--suite goes with --quick, --repeats, --folder and --json, found sizes", "--suite", "--sizes", "4")
        refused("--quick goes with --suite", "gemm", "--quick")
        refused("ring needs two ranks: start with mpirun -n 2", "ring", "--ranks", "1")
        refused("unknown option '--repeat'; nearest name '--repeats'", "gemm", "--repeat", "3")
        # Found out by the ranks that measure, while the other one sleeps.
        refused("no folder", "io-read", "--sizes", "1", "--folder", self.path("nowhere"), "--ranks", "1", code=3)


if __name__ == "__main__":
    Program.program, Program.source = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
