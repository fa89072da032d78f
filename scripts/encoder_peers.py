#!/usr/bin/env python3
"""The packed CPU encoder beside ONNX Runtime, sentence-transformers and transformers, in one run on the same pairs.

    python scripts/encoder_peers.py --bench target/release/rerank-bench --peers PEERS --model bge-base \\
        --folder DIR --pools FILE --threads 2 [--rounds 2] [--questions 3] [--only ours,candle,onnxruntime] [--onnx FILE]

PEERS   folder of the peer scripts (peer_onnxruntime.py and so on), run with this Python
DIR     random-weight folder of the model with config.json, model.safetensors, tokenizer.json: all sides load it, so that
        token counts and scores can be compared
FILE    pool file with texts; the benchmark wants embeddings in it too

Every round runs each side once after a short warm-up, one after the other, so that drift of the machine hits all alike. What is compared is
the least time a pool over the rounds, tokenising included. With one thread the peers' process CPU time is printed
beside the wall time: it is the figure to read on a busy machine. Weights are random: times mean something, scores do not.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default="target/release/rerank-bench")
    p.add_argument("--peers", required=True)
    p.add_argument("--model", default="bge-base", help="name that is printed")
    p.add_argument("--folder", required=True)
    p.add_argument("--pools", required=True)
    p.add_argument("--onnx", help="exported model; written there the first time")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--questions", type=int, default=3)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--only", default="ours,candle,onnxruntime,sentence-transformers,transformers")
    return p.parse_args()


def run(command):
    """Standard output and the CPU seconds of a command; ends the run where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HF_HUB_OFFLINE="1"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def product(a, engine, batch):
    """Our own binary: (milliseconds of every pool, real tokens, padded tokens); it counts a cell's tokens."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run([a.bench, "--model", a.folder, "--engine", engine, "--batch", str(batch), "--threads", str(a.threads), "--device", "cpu",
             "--input", a.pools, "--questions", str(a.questions), "--warmup", "0", "--json", out.name])
        rows = json.load(open(out.name))["rows"]
    row = next(r for r in rows if r.get("engine") == engine)
    return row["times_ms"], None, row["real_tokens"], row["padded_tokens"]


def peer(a, name, script, extra):
    command = [sys.executable, os.path.join(a.peers, script), "--model", a.folder, "--pools", a.pools, "--threads", str(a.threads),
               "--questions", str(a.questions), "--warmup-candidates", "2"] + extra
    out, _ = run(command)
    rows = json.loads(out.strip().splitlines()[-1])["rows"]
    cpu = [r["cpu_ms"] for r in rows] if a.threads == 1 else None
    real = sum(r["real_tokens"] for r in rows)
    return [r["total_ms"] for r in rows], cpu, real, sum(r["padded_tokens"] for r in rows) - real


def main():
    a = arguments()
    onnx = a.onnx or os.path.join(a.folder, "model.onnx")
    sides = {
        "ours": lambda: product(a, "packed", 200),
        "candle": lambda: product(a, "candle", 32),
        "onnxruntime": lambda: peer(a, "onnxruntime", "peer_onnxruntime.py", ["--onnx", onnx, "--batch", "32"]),
        "sentence-transformers": lambda: peer(a, "sentence-transformers", "peer_sentence_transformers.py", ["--batch", "32"]),
        "transformers": lambda: peer(a, "transformers", "peer_transformers.py", ["--batch", "200"]),
    }
    wanted = [s for s in a.only.split(",") if s]
    unknown = [s for s in wanted if s not in sides]
    if unknown:
        sys.exit(f"--only {','.join(unknown)}: known are {', '.join(sides)}")
    best = {}
    for number in range(a.rounds):
        for side in wanted:
            wall, cpu, real, padded = sides[side]()
            print(f"round {number + 1}, {side}: {[round(t) for t in wall]} ms", file=sys.stderr)
            old = best.get(side, (wall, cpu, real, padded))
            least = [min(x, y) for x, y in zip(old[0], wall)]
            least_cpu = [min(x, y) for x, y in zip(old[1], cpu)] if cpu else None
            best[side] = (least, least_cpu, real, padded)
    mean = lambda values: sum(values) / len(values)
    first = mean(best[wanted[0]][0])
    print(f"{a.model}, f32, {a.threads} threads, {a.questions} pools; least time a pool over {a.rounds} rounds, mean over pools\n")
    print(f"| {'side':22} | ms a pool | CPU ms | real tokens | padded | {wanted[0]} is faster by |")
    print("|" + "-" * 24 + "|----------:|-------:|------------:|-------:|-----------:|")
    for side in wanted:
        wall, cpu, real, padded = best[side]
        cpu_text = f"{mean(cpu):.0f}" if cpu else ""
        print(f"| {side:22} | {mean(wall):9.0f} | {cpu_text:>6} | {real:11} | {padded:6} | {mean(wall) / first:9.2f}x |")


if __name__ == "__main__":
    main()
