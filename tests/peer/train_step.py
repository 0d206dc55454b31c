#!/usr/bin/python3
"""How fast a training step is beside the same step in PyTorch: same weights, same samples, same optimizer, one thread per process.

    /usr/bin/python3 tests/peer/train_step.py --model vit --size 256             # one process
    /usr/bin/python3 tests/peer/train_step.py --model vit --size 256 --ranks 2   # a sample each; DistributedDataParallel with gloo

First both train a few steps, and their losses have to agree. Then they are timed in turn, and the ratio of the medians is printed with the
range of the rounds. Needs Debian's python3-torch, python3-h5py and libopenblas0-pthread, and the program built (cmake --preset release).

A ratio says something only where PyTorch runs as it should. Debian's PyTorch takes whatever BLAS is installed: the reference one is 50 times
slower than the processor, and an OpenBLAS that does not know the processor falls back to kernels of 2004. So OpenBLAS's kernels are tried in
turn and the fastest are used; a PyTorch whose matrix product is still slower than half the library's is refused."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "build", "release", "bin", "tessera")
LEARNED = 3  # steps whose losses are compared
TOLERANCE = 1e-3
LEAST_GEMM = 0.5  # of the library's
KERNELS = [None, "SkylakeX", "Cooperlake", "Haswell", "Zen"]  # of OpenBLAS; None: its own choice

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
# Without these PyTorch asks the system for fresh pages in every step.
POOLED = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456"}


def environment(extra):
    """One thread, and nothing that the caller's environment asks of OpenBLAS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    return {**kept, "OMP_NUM_THREADS": "1", **extra}


def tessera(options, ranks, *arguments):
    """The one row that `tessera bench` reports."""
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.json")
        command = ["mpirun", "-n", str(ranks), options.program, "bench", *arguments, "--ranks", str(ranks), "--quiet", "--json", report]
        subprocess.run(command, env=environment(MPI), check=True, timeout=options.timeout)
        with open(report) as file:
            row, = json.load(file)["rows"]
    return row


def tessera_steps(options, repeats, *arguments):
    return tessera(options, options.ranks, "train-step", "--model", options.model, "--sizes", str(options.size), "--partition",
                   "ddp" if options.ranks > 1 else "even", "--repeats", str(repeats), *arguments)


def torch_steps(options, kernels, repeats, folder):
    """{"losses": [...], "seconds": median of a step}"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, os.path.join(HERE, "torch_step.py"), folder, str(repeats), str(rank), str(options.ranks),
                               str(port)], env=environment({**POOLED, **kernels}), stdout=subprocess.PIPE, text=True)
             for rank in range(options.ranks)]
    try:
        outputs = [process.communicate(timeout=options.timeout)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    if any(process.returncode for process in ranks):
        raise SystemExit("PyTorch failed")
    result = json.loads(outputs[0])
    return {"losses": result["losses"], "seconds": statistics.median(result["seconds"])}


def fastest_kernels(options):
    """The environment in which PyTorch's matrix product is fastest."""
    tried = []
    for kernels in KERNELS:
        extra = {"OPENBLAS_CORETYPE": kernels} if kernels else {}
        output = subprocess.run([sys.executable, os.path.join(HERE, "torch_gemm.py")], env=environment({**POOLED, **extra}), check=True,
                                stdout=subprocess.PIPE, text=True, timeout=options.timeout).stdout
        tried.append((json.loads(output), extra))
    best, extra = max(tried, key=lambda entry: entry[0]["rate"])
    library = tessera(options, 1, "gemm", "--sizes", "2048")["limit"]["rate"]
    print(f"matrix product: PyTorch {best['rate'] / 1e9:.0f} Gflop/s ({extra.get('OPENBLAS_CORETYPE', 'own choice of kernels')}; "
          f"of its own choice {tried[0][0]['rate'] / 1e9:.0f}), oneDNN {library / 1e9:.0f}", flush=True)
    if best["rate"] < LEAST_GEMM * library:
        raise SystemExit(f"PyTorch's BLAS is too slow to compare with: {', '.join(best['blas']) or 'none found'}; expected OpenBLAS, "
                         "which `apt-get install libopenblas0-pthread` puts in its place")
    return extra


def check_losses(ours, theirs):
    for step, (a, b) in enumerate(zip(ours[:LEARNED], theirs[:LEARNED])):
        print(f"loss of step {step + 1}: tessera {a:.6f}, PyTorch {b:.6f}", flush=True)
        if not abs(a - b) <= TOLERANCE * abs(b):
            raise SystemExit("the losses differ: not the same work, nothing is timed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["vit", "convnet", "convnet-3d"], default="vit")
    parser.add_argument("--size", type=int, default=256, help="grid cells per axis")
    parser.add_argument("--ranks", type=int, default=1, help="processes, each with a sample of its own")
    parser.add_argument("--rounds", type=int, default=3, help="how often the two take turns")
    parser.add_argument("--repeats", type=int, default=5, help="steps that a round times")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one run may take")
    parser.add_argument("--program", default=PROGRAM)
    options = parser.parse_args()

    kernels = fastest_kernels(options)
    with tempfile.TemporaryDirectory() as folder:
        ours = tessera_steps(options, LEARNED, "--save-case", folder)
        check_losses(ours["losses"], torch_steps(options, kernels, LEARNED, folder)["losses"])
        times = [(tessera_steps(options, options.repeats)["median_s"],
                  torch_steps(options, kernels, options.repeats, folder)["seconds"]) for _ in range(options.rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*times))
    ratios = sorted(b / a for a, b in times)
    print(f"{options.model}, {options.size} cells per axis, {options.ranks} x 1 thread: tessera {1e3 * ours:.1f} ms, "
          f"PyTorch {1e3 * theirs:.1f} ms a step: {theirs / ours:.2f} x as fast ({ratios[0]:.2f} ... {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
