#!/usr/bin/env python3
"""MemPursuit beside the numba stand-in for the paper's own implementation, in one run: a Markdown table.

    python scripts/peers.py [--shared ../shared] [--work FOLDER] [--n 60] [--rounds 5] [--grid] [--output FILE]

Needs numpy, numba, scipy and safetensors; build first with
`cargo build --release --no-default-features --example selector_times`.

Everything runs on one thread. The two sides take turns, ten pools at a time, so that drift of the machine hits
both; ratios are of medians. `cold` gives every pool a matrix of its own that was not touched since the last
round, `store` reads rows where they lie, `corpus` keeps similarities between questions (second pass: kept ones).
LoCoMo comes from the shared folder, lifted to 1,536 dimensions by an orthonormal map; its data stay in FOLDER.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile, time

WANT = {k: "1" for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
BAD = [k for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if k in os.environ]
if BAD or any(os.environ.get(k) != v for k, v in WANT.items()):  # read when the libraries load
    for k in BAD:
        del os.environ[k]
    os.environ.update(WANT)
    os.execv(sys.executable, [sys.executable] + sys.argv)

ROOT = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--shared", type=pathlib.Path, default=ROOT / ".." / "shared")
parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "rerank-bench-peers")
parser.add_argument("--n", type=int, default=60, help="pools (corpus: all)")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--grid", action="store_true", help="Table 14's grid as well")
parser.add_argument("--growth", action="store_true", help="P = 1,000, 10,000, 100,000 as well")
parser.add_argument("--output", type=pathlib.Path)
args = parser.parse_args()
sys.dont_write_bytecode = True
os.environ.setdefault("NUMBA_CACHE_DIR", str(args.work / "numba"))

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(args.shared / "peers"))
from mempursuit_numba import mempursuit

BINARY = ROOT / "target" / "release" / "examples" / "selector_times"


class Ours:
    """Our side: a process that holds the pools and times them on request."""

    def __init__(self, pools, candidates, budget, dtype, layout):
        command = [str(BINARY), str(pools), str(candidates), str(budget), dtype, layout]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask()

    def ask(self, line=None):
        if line:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def theirs(pools, candidates, dtype):
    """Their side: contiguous matrices in the stand-in's type."""
    lines = [json.loads(line) for line in open(pools)]
    store = load_file(pools.parent / lines[0]["embeddings"])
    rows = lambda line: np.ascontiguousarray(store["memories"][line["rows"][:candidates]].astype(dtype))
    return [(rows(line), store["queries"][line["query_row"]].astype(dtype)) for line in lines]


def compare(pools, candidates, budget, ours, f64=True):
    """Medians in ms: the stand-in in f32 and f64, and each (dtype, layout) of ours, taking turns."""
    sides = {f"{dtype} {layout}": Ours(pools, candidates, budget, dtype, layout) for dtype, layout in ours}
    peers = {"numba f32": theirs(pools, candidates, np.float32)}
    if f64:
        peers["numba f64"] = theirs(pools, candidates, np.float64)
    for matrices in peers.values():
        for x, q in matrices[:2]:
            mempursuit(x, q, budget)
    count = len(peers["numba f32"])
    times = {name: [] for name in [*peers, *sides]}
    for _ in range(args.rounds):
        for first in range(0, count, 10):
            for name, matrices in peers.items():
                for x, q in matrices[first : first + 10]:
                    clock = time.perf_counter()
                    mempursuit(x, q, budget)
                    times[name].append((time.perf_counter() - clock) * 1e3)
            for name, side in sides.items():
                times[name] += side.ask(f"{first} {first + 10}")
    for side in sides.values():
        side.close()
    return {name: float(np.median(values)) for name, values in times.items()}


def evenly(source, count, name):
    """A pool file with `count` of the pools of `source`, beside it."""
    lines = open(source).read().splitlines()
    path = source.parent / name
    path.write_text("".join(line + "\n" for line in lines[:: max(1, len(lines) // count)][:count]))
    return path


def generated(folder, count, candidates, dimension=1536):
    """Seeded pools of clustered vectors, best first, every pool with rows of its own."""
    path = folder / f"generated_{candidates}.jsonl"
    random, memories, queries, lines = np.random.default_rng(candidates), [], [], []
    for pool in range(count):
        centres = random.normal(size=(12, dimension)) + 1.0
        x = centres[random.choice(12, candidates, p=random.dirichlet(np.ones(12)))]
        x = x + 1.2 * random.normal(size=(candidates, dimension))
        q = centres[0] + centres[1] + 1.5 * random.normal(size=dimension)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        q /= np.linalg.norm(q)
        memories.append(x[np.argsort(-(x @ q), kind="stable")])
        queries.append(q)
        rows = list(range(pool * candidates, (pool + 1) * candidates))
        store = f"generated_{candidates}.safetensors"
        lines.append(json.dumps({"query_row": pool, "rows": rows, "embeddings": store}) + "\n")
    tensors = {"memories": np.concatenate(memories), "queries": np.stack(queries)}
    save_file({k: np.ascontiguousarray(v.astype(np.float32)) for k, v in tensors.items()}, folder / store)
    path.write_text("".join(lines))
    return path


def hard(folder):
    """The geometry of the goldens `multi_a` and `single_a` (optimum beyond K), as their PRNG defines it in kind."""
    path, random = folder / "hard.jsonl", np.random.default_rng(3)
    memories, queries, lines = [], [], []
    for pool in range(args.n):
        topics = random.uniform(-1, 1, size=(12, 1536))
        own = random.uniform(-1, 1, size=1536)
        q = own if pool % 2 else topics[:4].sum(0) + own
        anchor = q if pool % 2 else q / 2
        wq, wt, wn = (random.integers(a, a + 4, size=(200, 1)) for a in (1, 2, 3))
        x = wq * anchor + wt * topics[random.integers(0, 12, 200)] + wn * random.uniform(-1, 1, size=(200, 1536))
        memories.append(x / np.linalg.norm(x, axis=1, keepdims=True))
        queries.append(q / np.linalg.norm(q))
        rows = list(range(pool * 200, (pool + 1) * 200))
        lines.append(json.dumps({"query_row": pool, "rows": rows, "embeddings": "hard.safetensors"}) + "\n")
    tensors = {"memories": np.concatenate(memories), "queries": np.stack(queries)}
    save_file({k: np.ascontiguousarray(v.astype(np.float32)) for k, v in tensors.items()}, folder / "hard.safetensors")
    path.write_text("".join(lines))
    return path


out = []


def table(title, header):
    out.extend(["", f"### {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)])


def row(*cells):
    out.append("| " + " | ".join(cell if isinstance(cell, str) else f"{cell:.3f}" for cell in cells) + " |")
    print(out[-1], flush=True)


def ratios(title, medians):
    table(title, ["", "median ms", "x numba f32", "x numba f64"])
    for name, value in medians.items():
        row(name, value, f"{medians['numba f32'] / value:.2f}", f"{medians['numba f64'] / value:.2f}")


def main():
    lifted = args.work / "lifted"
    if not (lifted / "store.safetensors").exists():
        subprocess.run([sys.executable, args.shared / "peers" / "lift_locomo.py", lifted, "1536", "1540"], check=True)
    layouts = [("f32", "matrix"), ("f32", "store"), ("f16", "store"), ("bf16", "store")]
    some = evenly(lifted / "pools.jsonl", args.n, "some.jsonl")
    ratios(f"LoCoMo, d = 1536, P = 200, K = 20, {args.n} pools", compare(some, 200, 20, layouts))
    ratios("The large goldens' geometry, P = 200, K = 20", compare(hard(args.work), 200, 20, [("f32", "matrix")]))

    table("Many questions over one store: all 1,540 LoCoMo pools", ["", "median ms", "numba f32, the same minutes", "ratio"])
    everything, side = lifted / "pools.jsonl", None
    peers, side = theirs(some, 200, np.float32), Ours(everything, 200, 20, "f32", "corpus")
    for name in ("first pass", "second pass"):
        mine, other = [], []
        for first in range(0, 1540, 20):
            mine += side.ask(f"{first} {first + 20}")
            for x, q in (peers[(first // 20 * 3 + k) % len(peers)] for k in range(3)):
                clock = time.perf_counter()
                mempursuit(x, q, 20)
                other.append((time.perf_counter() - clock) * 1e3)
        mine, other = float(np.median(mine)), float(np.median(other))
        row(name, mine, other, f"{other / mine:.2f}")
    one, two = (float(np.median([side.ask(f"many {k}") for _ in range(3)])) for k in (1, 2))
    row("select_many, one thread, a question", one / 1540, "", "")
    row("select_many, two threads, a question", two / 1540, "", f"{one / two:.2f}x one thread")
    side.close()

    if args.grid:
        table("Table 14's grid (generated pools)", ["P", "K", "ours ms", "numba f32 ms", "ratio"])
        for candidates in (100, 200, 300, 500):
            pools = generated(args.work, 20, candidates)
            for budget in (10, 20, 50, 100):
                medians = compare(pools, candidates, budget, [("f32", "matrix")], f64=False)
                ours, other = medians["f32 matrix"], medians["numba f32"]
                row(str(candidates), str(budget), ours, other, f"{other / ours:.2f}")
    if args.growth:
        table("Growth, d = 1536, K = 50", ["P", "ours ms", "ms a step", "one read of the matrix, ms"])
        for candidates in (1000, 10000, 100000):
            pools = generated(args.work, 1, candidates)
            side = Ours(pools, candidates, 50, "f32", "matrix")
            matrix = load_file(args.work / f"generated_{candidates}.safetensors")["memories"]
            read, ours = [], []
            for _ in range(5):
                ours += side.ask("0 1")
                clock = time.perf_counter()
                matrix.view(np.uint64).max()
                read.append((time.perf_counter() - clock) * 1e3)
            side.close()
            row(str(candidates), float(np.median(ours)), float(np.median(ours)) / 50, float(np.median(read)))


args.work.mkdir(parents=True, exist_ok=True)
main()
if args.output:
    args.output.write_text("\n".join(out) + "\n")
