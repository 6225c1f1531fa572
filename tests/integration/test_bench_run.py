#!/usr/bin/env python3
"""`vllm-bench run` from outside: files, exit codes, refusals, interrupts, a full disk, and memory as the kernel counts it.

Usage: test_bench_run.py BIN_DIR. Parts whose means are absent are skipped by name; exit 77 when all of them are.
"""
import contextlib
import csv
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
BENCH = os.path.join(BIN, "vllm-bench")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKLOADS = os.path.join(os.path.dirname(ROOT), "shared", "reference", "workloads")
MiB = 1 << 20

TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 500, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 8192, "torch_dtype": "float32"}


def make_row(prompt, output, arrival_ns, seed=0, vocab=500):
    rng = random.Random(seed * 7919 + prompt)
    ids = [rng.randrange(vocab) for _ in range(prompt)]
    return json.dumps({"input_toks": prompt, "output_toks": output, "arrival_time_ns": arrival_ns, "input_tok_ids": ids})


def read_rows(path, most=None):
    with open(path) as file:
        return [json.loads(line) for line in itertools.islice(file, most)]


def status_field(pid, name):
    """A kB field of /proc/<pid>/status in bytes; 0 when the process is gone or has no memory any more."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class BenchCase(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-bench-run-")
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        self.model = self.make_model("model", TINY)
        self.out = os.path.join(self.dir, "out")
        self.dataset = self.write("w.jsonl", "\n".join(make_row(20 + i, 4 + i % 5, i * 20_000_000, i) for i in range(12)))

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as file:
            file.write(text + "\n")
        return path

    def make_model(self, name, config):
        path = os.path.join(self.dir, name)
        os.makedirs(path)
        with open(os.path.join(path, "config.json"), "w") as file:
            json.dump(config, file)
        return path

    def command(self, *more, dataset=None, out=None, model=None, blocks="512"):
        return [BENCH, "run", "--model", model or self.model, "--load-format", "dummy", "--dataset", dataset or self.dataset,
                "--output-dir", out or self.out, "--no-plots"] + (["--num-blocks", blocks] if blocks else []) + list(more)

    def run_bench(self, *more, expect=0, **where):
        done = subprocess.run(self.command(*more, **where), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def meta(self, out=None):
        with open(os.path.join(out or self.out, "meta.json")) as file:
            return json.load(file)

    def requests(self, out=None):
        with open(os.path.join(out or self.out, "requests.jsonl")) as file:
            return [json.loads(line) for line in file]

    def files(self, out=None):
        return sorted(os.listdir(out or self.out))


class FinishedRuns(BenchCase):
    def test_files_and_exact_tokens(self):
        done = self.run_bench("--record-steps")
        self.assertEqual(self.files(), ["engine_start.json", "meta.json", "requests.jsonl", "steps.bin", "steps.jsonl", "timeseries.csv"])
        rows = read_rows(self.dataset)
        records = self.requests()
        self.assertEqual([r["request_id"] for r in records], [f"bench-{i}" for i in range(12)])
        for row, record in zip(rows, records):
            self.assertEqual((record["input_toks"], record["output_toks"]), (row["input_toks"], row["output_toks"]))
            self.assertEqual(list(record)[:8], ["request_id", "input_toks", "output_toks", "arrival_time", "queued_ts", "scheduled_ts",
                                                "first_token_ts", "last_token_ts"])
        with open(os.path.join(self.out, "timeseries.csv"), newline="") as file:
            text = file.read()
        self.assertIn("\r\n", text)
        table = list(csv.DictReader(text.splitlines()))
        self.assertEqual(list(table[0]), ["t", "prompt_throughput", "prompt_compute_throughput", "prompt_cached_throughput",
                                          "gen_throughput", "running", "waiting", "preempted", "kv_cache_pct"])
        self.assertAlmostEqual(sum(float(r["prompt_throughput"]) for r in table), sum(r["input_toks"] for r in rows), delta=0.6)
        self.assertAlmostEqual(sum(float(r["gen_throughput"]) for r in table), sum(r["output_toks"] for r in rows), delta=0.6)
        meta = self.meta()
        self.assertEqual(meta["kv_cache"]["num_gpu_blocks"], 512)
        self.assertNotIn("diagnostic", meta)
        self.assertIn("Serving Benchmark Result", done.stdout)
        self.assertIn("every request gave exactly the tokens asked for", done.stdout)

    def test_the_schedule_is_kept(self):
        self.run_bench()
        records = self.requests()
        issued = [r["issued_ts"] - r["send_lag_s"] for r in records]
        for i in range(1, 12):
            self.assertAlmostEqual(issued[i] - issued[0], i * 0.02, places=6)

    def test_two_runs_of_a_dataset_agree_in_every_count(self):
        outs = [os.path.join(self.dir, name) for name in ("a", "b")]
        for out in outs:
            self.run_bench(out=out)
        counts = [[(r["request_id"], r["input_toks"], r["output_toks"]) for r in self.requests(out)] for out in outs]
        self.assertEqual(counts[0], counts[1])
        self.assertEqual(self.meta(outs[0])["dataset_hash"], self.meta(outs[1])["dataset_hash"])
        self.assertEqual(self.meta(outs[0])["kv_plan"], self.meta(outs[1])["kv_plan"])

    def test_resolve_only(self):
        self.run_bench("--resolve-only")
        self.assertEqual(self.files(), ["meta.json"])
        meta = self.meta()
        self.assertTrue(meta["resolve_only"])
        self.assertEqual(meta["num_requests"], 0)
        self.assertEqual(meta["kv_cache"]["capacity"]["status"], "complete")

    def test_a_reference_workload(self):
        path = os.path.join(WORKLOADS, "sharegpt-llama-3.1-8b-300-sps10.jsonl")
        if not os.path.exists(path):
            self.skipTest("the reference workloads are not beside the checkout")
        model = self.make_model("wide", dict(TINY, vocab_size=128256, hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
                                             intermediate_size=64, num_hidden_layers=1))
        self.run_bench("--num-reqs", "20", "--speed", "20", dataset=path, model=model, blocks="4096")
        rows = read_rows(path, 20)
        self.assertEqual([r["output_toks"] for r in self.requests()], [r["output_toks"] for r in rows])
        self.assertIn("paced", self.meta()["diagnostic"])

    def test_plots_are_drawn_or_their_absence_is_said(self):
        command = [a for a in self.command() if a != "--no-plots"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        plots = os.path.join(self.out, "plots")
        if "gnuplot is not installed" in done.stderr:
            self.assertIn("no plots", done.stderr)
        else:
            self.assertEqual(sorted(os.listdir(plots)), ["latency.png", "latency.svg", "requests.png", "requests.svg",
                                                         "throughput.png", "throughput.svg"])
        self.assertIn("meta.json", self.files())


class Refusals(BenchCase):
    def refused(self, *more, **where):
        done = self.run_bench(*more, expect=2, **where)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(self.out), "a refusal left a folder behind")
        return done.stderr

    def test_bad_lines_name_file_and_line(self):
        good = make_row(4, 2, 0)
        for bad in ["{not json", make_row(4, 2, 0).replace('"output_toks": 2', '"output_toks": -2'),
                    '{"input_toks":1,"output_toks":1,"arrival_time_ns":0}',
                    '{"input_toks":1,"output_toks":1,"arrival_time_ns":99999999999999999999,"input_tok_ids":[1]}',
                    '{"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[500]}',
                    '{"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[-1]}']:
            path = self.write("bad.jsonl", good + "\n" + bad)
            self.assertIn("bad.jsonl:2", self.refused(dataset=path), bad)

    def test_missing_things(self):
        self.assertIn("nowhere.jsonl", self.refused(dataset=os.path.join(self.dir, "nowhere.jsonl")))
        self.assertIn("no-model", self.refused(model=os.path.join(self.dir, "no-model")))

    def test_unwritable_and_used_output(self):
        blocked = self.write("file", "")
        done = self.run_bench(expect=2, out=os.path.join(blocked, "below"))
        self.assertIn("--output-dir", done.stderr)
        self.run_bench()
        before = {name: os.stat(os.path.join(self.out, name)).st_mtime_ns for name in self.files()}
        done = self.run_bench(expect=2)
        self.assertIn("has a run in it", done.stderr)
        self.assertEqual(before, {name: os.stat(os.path.join(self.out, name)).st_mtime_ns for name in self.files()})

    def test_a_read_only_file_system(self):
        mount = os.path.join(self.dir, "ro")
        with mounted(mount, "size=1m,ro") as problem:
            if problem:
                self.skipTest("cannot mount a read-only file system: " + problem)
            done = self.run_bench(expect=2, out=os.path.join(mount, "out"))
            self.assertIn("Read-only file system", done.stderr)

    def test_what_is_not_built_is_refused_by_name(self):
        for option in (["--base-url", "http://127.0.0.1:9"], ["--tensor-parallel-size", "2"], ["--data-parallel-size", "2"],
                       ["--record-gate-stats"], ["--device", "cuda"], ["--no-such-option"]):
            self.assertIn(option[0], self.refused(*option))

    def test_bad_numbers(self):
        for option, value in (("--tick-seconds", "0"), ("--tick-seconds", "nan"), ("--speed", "-1"), ("--speed", "0"),
                              ("--num-reqs", "-1"), ("--warmup", "-1"), ("--num-reqs", "99999999999999999999")):
            self.assertIn(option, self.refused(option, value), (option, value))


class NeverFitting(BenchCase):
    """Refused before anything is allocated, as the kernel sees it."""

    def peak(self, *more, expect=2, **where):
        """Exit code's check, stderr and the largest resident size that was seen."""
        with tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(self.command(*more, **where), stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            text = err.read()
        self.assertEqual(process.returncode, expect, text)
        return text, usage.ru_maxrss * 1024

    def test_every_such_line_is_counted_and_nothing_allocated(self):
        big = self.make_model("big", dict(TINY, hidden_size=1024, intermediate_size=4096, num_hidden_layers=8,
                                          num_attention_heads=16, num_key_value_heads=16))
        rows = [make_row(10, 2, 0)] + [make_row(300 + i, 900, 0, i) for i in range(3)]
        dataset = self.write("long.jsonl", "\n".join(rows))
        _, idle = self.peak("--help", expect=0)
        err, used = self.peak(dataset=dataset, model=big, blocks="64")
        self.assertIn("3 of 4 requests can never fit; first: line 2", err)
        # Weights alone would be over 200 MiB and the pool another 64 MiB.
        self.assertLess(used - idle, 32 * MiB, "memory was taken before the refusal")
        self.assertFalse(os.path.exists(self.out))

    def test_a_budget_beyond_memory(self):
        _, idle = self.peak("--help", expect=0)
        err, used = self.peak("--kv-cache-memory", "4096GiB", blocks=None)
        self.assertIn("--kv-cache-memory", err)
        self.assertLess(used - idle, 32 * MiB, "memory was taken before the refusal")
        self.assertFalse(os.path.exists(self.out))


class Interrupts(BenchCase):
    def start(self, *more, **where):
        """A run that has finished its first request and waits for one that is due in an hour."""
        rows = [make_row(10, 2, 0), make_row(10, 2, 3_600_000_000_000, 1)]
        dataset = self.write("slow.jsonl", "\n".join(rows))
        err = open(os.path.join(self.dir, "err"), "w+")
        self.addCleanup(err.close)
        process = subprocess.Popen(self.command("--warmup", "0", *more, dataset=dataset, **where), stdout=subprocess.DEVNULL, stderr=err)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.out, "aborted.json")):
            self.assertLess(time.monotonic(), deadline, "the replay did not start")
            self.assertIsNone(process.poll(), "it ended early")
            time.sleep(0.05)
        time.sleep(1.0)
        return process

    def aborted(self):
        with open(os.path.join(self.out, "aborted.json")) as file:
            return json.load(file)

    def test_ctrl_c(self):
        process = self.start("--record-steps")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 1)
        account = self.aborted()
        self.assertEqual(account["reason"], "interrupted (Ctrl-C or SIGTERM)")
        self.assertEqual((account["num_requests"], account["num_issued"], account["num_finished"]), (2, 1, 1))
        self.assertEqual(account["finished_requests"][0]["request_id"], "bench-0")
        self.assertEqual(self.files(), ["aborted.json", "engine_start.json"])
        # The folder is used up.
        self.run_bench(expect=2)

    def test_kill_leaves_nothing_that_looks_finished(self):
        process = self.start()
        process.kill()
        process.wait()
        self.assertNotIn("meta.json", self.files())
        self.assertNotIn("requests.jsonl", self.files())
        self.assertIn("ended without a word", self.aborted()["reason"])


@contextlib.contextmanager
def mounted(path, options):
    """A tmpfs at `path`; yields why it could not be mounted, or None."""
    os.makedirs(path, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], capture_output=True, text=True)
    if done.returncode != 0:
        yield done.stderr.strip() or "mount failed"
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", "-l", path], check=True)


class FullDisk(BenchCase):
    def test_full_disk(self):
        disk = os.path.join(self.dir, "disk")
        with mounted(disk, "size=256k") as problem:
            if problem:
                self.skipTest("cannot mount a small file system: " + problem)
            rows = [make_row(8, 400, 0, i) for i in range(64)]
            dataset = self.write("many.jsonl", "\n".join(rows))
            self.out = os.path.join(disk, "out")
            # The inter-token latencies of 25,600 tokens do not fit into a quarter of a megabyte.
            done = self.run_bench("--record-itl", "--null-executor", dataset=dataset, blocks="4096", expect=1)
            self.assertIn("No space left on device", done.stderr)
            self.assertNotIn("meta.json", self.files())
            self.assertNotIn("requests.jsonl", self.files())
            with open(os.path.join(self.out, "aborted.json")) as file:
                account = json.load(file)
            self.assertEqual(account["status"], "aborted")
            self.assertIn("No space left on device", account["reason"])
            self.assertEqual(account["num_finished"], 64)

    def test_disk_that_fills_up_to_the_last_byte(self):
        disk = os.path.join(self.dir, "disk")
        with mounted(disk, "size=256k") as problem:
            if problem:
                self.skipTest("cannot mount a small file system: " + problem)
            self.out = os.path.join(disk, "out")
            filler = os.open(os.path.join(disk, "filler"), os.O_WRONLY | os.O_CREAT)
            with contextlib.suppress(OSError):
                while True:
                    os.write(filler, b"x" * 4096)
            os.close(filler)
            done = self.run_bench("--null-executor", expect=1)
            self.assertIn("No space left on device", done.stderr)
            self.assertTrue(not os.path.isdir(self.out) or "meta.json" not in self.files())


class Memory(BenchCase):
    """The report's own case: what the process takes grows by no more than what the plan printed."""

    def run_and_watch(self, *knobs, model):
        rows = [make_row(200, 8, i * 50_000_000, i) for i in range(24)]
        dataset = self.write("load.jsonl", "\n".join(rows))
        command = self.command("--max-model-len", "1024", "--max-num-seqs", "8", "--max-num-batched-tokens", "256", *knobs,
                               dataset=dataset, model=model, blocks=None)
        idle = NeverFitting.peak(self, "--help", expect=0)[1]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, status_field(process.pid, "VmHWM"))
            time.sleep(0.02)
        self.assertEqual(process.returncode, 0)
        return peak - idle, self.meta()

    def check(self, *knobs):
        # As many layers as the report's model, narrow: a pool counted for one layer and allocated for all would show.
        model = self.make_model("deep", dict(TINY, hidden_size=256, intermediate_size=512, num_hidden_layers=28,
                                             num_attention_heads=8, num_key_value_heads=8, head_dim=32,
                                             max_position_embeddings=4096))
        grown, meta = self.run_and_watch(*knobs, model=model)
        plan = meta["kv_plan"]
        planned = plan["pool_bytes"] + plan["weights_bytes"] + meta["memory"]["workspace"]["peak_bytes"]
        # The rest: libraries, heap, threads.
        self.assertLessEqual(grown, planned + 64 * MiB, (grown / MiB, plan))
        self.assertGreaterEqual(grown, plan["pool_bytes"], "the pool that was planned was not taken")
        return plan

    def test_kv_cache_memory(self):
        plan = self.check("--kv-cache-memory", "192MiB")
        self.assertEqual(plan["decided_by"], "kv-cache-memory")
        self.assertLessEqual(plan["pool_bytes"], 192 * MiB)

    def test_num_blocks(self):
        plan = self.check("--num-blocks", "200")
        self.assertEqual(plan["blocks"], 200)

    def test_no_knob(self):
        self.assertEqual(self.check()["decided_by"], "default")


if __name__ == "__main__":
    if not os.path.exists(BENCH):
        print(f"{BENCH} is not built: skipped")
        sys.exit(77)
    unittest.main(verbosity=2)
