#!/usr/bin/env python3
"""Programs in surroundings that are against them: closed descriptors, limits of the system, a second run, damaged logs.

Usage: test_hostile_surroundings.py BIN_DIR.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
BENCH, WORKLOAD = os.path.join(BIN, "vllm-bench"), os.path.join(BIN, "vllm-workload")
SANITIZED = "sanitizers: none" not in subprocess.run([BENCH, "--version"], capture_output=True, text=True).stdout
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 500, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "torch_dtype": "float32"}


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def close(*descriptors):
    def act():
        for fd in descriptors:
            os.close(fd)
    return act


class Case(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-hostile-")
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        self.model = os.path.join(self.dir, "model")
        os.makedirs(self.model)
        with open(os.path.join(self.model, "config.json"), "w") as file:
            json.dump(TINY, file)
        self.out = os.path.join(self.dir, "out")
        self.dataset = os.path.join(self.dir, "w.jsonl")
        with open(self.dataset, "w") as file:
            for i in range(100):
                file.write(json.dumps({"input_toks": 20, "output_toks": 8, "arrival_time_ns": i * 1_000_000,
                                       "input_tok_ids": [(i * 31 + k) % 500 for k in range(20)]}) + "\n")

    def command(self, *more, null=True):
        return [BENCH, "run", "--model", self.model, "--load-format", "dummy", "--dataset", self.dataset, "--output-dir", self.out,
                "--no-plots", "--num-blocks", "512", "--warmup", "0"] + (["--null-executor"] if null else []) + list(more)

    def run_it(self, command, before=None):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, preexec_fn=before)
        self.assertGreaterEqual(done.returncode, 0, f"ended by signal {-done.returncode}: {done.stderr}")
        return done


class ClosedDescriptors(Case):
    # The next file that was opened got the closed number, and the log went into the recording.
    def test_no_log_gets_into_a_file(self):
        for fds, code in (((2,), 0), ((1, 2), 1), ((0, 1, 2), 1), ((0,), 0)):
            self.out = os.path.join(self.dir, "out" + "".join(map(str, fds)))
            done = self.run_it(self.command("--record-steps"), close(*fds))
            self.assertEqual(done.returncode, code, fds)
            self.assertIn("meta.json", os.listdir(self.out))
            with open(os.path.join(self.out, "requests.jsonl")) as file:
                self.assertEqual(len([json.loads(line) for line in file]), 100)
            with open(os.path.join(self.out, "timeseries.csv")) as file:
                self.assertTrue(file.read().startswith("t,"))
            for name in os.listdir(self.out):
                with open(os.path.join(self.out, name), "rb") as file:
                    self.assertNotIn(b"Serving Benchmark", file.read(), name)


class Limits(Case):
    # SIGXFSZ ended the process in the middle of a write.
    def test_a_limit_of_the_file_size_is_a_failed_write(self):
        for size in (0, 500, 20_000):
            self.out = os.path.join(self.dir, f"out{size}")
            done = self.run_it(self.command("--record-steps"), limit(resource.RLIMIT_FSIZE, size))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("File too large", done.stderr.splitlines()[-1])
            left = os.listdir(self.out) if os.path.isdir(self.out) else []
            self.assertNotIn("meta.json", left)
            self.assertFalse([name for name in left if name.endswith((".partial", ".new"))], left)
        made = os.path.join(self.dir, "made.jsonl")
        done = self.run_it([WORKLOAD, "--output", made, "--num-reqs", "2000", "--vocab-size", "500"], limit(resource.RLIMIT_FSIZE, 10_000))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("made")], [])

    # A thread that could not be started left joinable threads behind: std::terminate.
    @unittest.skipIf(SANITIZED, "a sanitizer needs more address space than the limit leaves")
    def test_threads_that_cannot_start(self):
        done = self.run_it(self.command("--threads", "64", null=False), limit(resource.RLIMIT_AS, 200 << 20))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"--threads: only \d+ of 64 threads could be started \(.*\); give fewer")
        self.assertFalse(os.path.exists(self.out))

    @unittest.skipIf(SANITIZED, "a sanitizer needs more address space than the limit leaves")
    def test_little_memory_is_an_error_and_no_crash(self):
        for mib in range(16, 72, 4):
            self.out = os.path.join(self.dir, f"out{mib}")
            done = self.run_it(self.command("--threads", "2", null=False), limit(resource.RLIMIT_AS, mib << 20))
            self.assertIn(done.returncode, (0, 1, 2, 127), done.stderr)  # 127: too little for the libraries
            if done.returncode != 0:
                self.assertFalse(os.path.exists(os.path.join(self.out, "meta.json")), mib)
                self.assertNotIn("internal error", done.stderr)


class TwoAtOnce(Case):
    # Both found the folder empty; the loser's aborted.json and its clearing up destroyed the winner's recording.
    def test_one_records_and_the_others_are_refused(self):
        for turn in range(4):
            self.out = os.path.join(self.dir, f"out{turn}")
            running = [subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(3)]
            errors = [p.communicate(timeout=300)[1] for p in running]
            self.assertEqual(sorted(p.returncode for p in running), [0, 2, 2], errors)
            self.assertEqual(sorted(os.listdir(self.out)), ["engine_start.json", "meta.json", "requests.jsonl", "timeseries.csv"])


class DamagedStepLog(Case):
    # Ever more steps were in flight, beyond what the scheduler's tables are cut for.
    def test_a_step_that_never_ended_is_refused(self):
        self.assertEqual(self.run_it(self.command("--record-steps")).returncode, 0)
        log = os.path.join(self.out, "steps.jsonl")
        os.unlink(os.path.join(self.out, "steps.bin"))
        with open(log) as file:
            steps = [json.loads(line) for line in file]
        for t_out in (0.0, -1.0, None):
            for k in (0, len(steps) // 2):
                with open(log, "w") as file:
                    for i, step in enumerate(steps):
                        file.write(json.dumps(dict(step, t_out=t_out) if i == k else step) + "\n")
                done = self.run_it([BENCH, "check-schedule", "--bench-dir", self.out, "--dataset", self.dataset])
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)


class Output(Case):
    def test_rows_go_to_a_pipe_as_they_are(self):
        done = self.run_it([WORKLOAD, "--output", "/proc/self/fd/1", "--num-reqs", "5", "--vocab-size", "500"])
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(len([json.loads(row) for row in rows]), 5)

    def test_an_output_that_cannot_be_written_is_refused(self):
        for path in (self.dir, os.path.join(self.dataset, "below"), os.path.join(self.dir, "no", "such")):
            done = self.run_it([WORKLOAD, "--output", path, "--num-reqs", "5", "--vocab-size", "500"])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--output", done.stderr)


if __name__ == "__main__":
    unittest.main()
