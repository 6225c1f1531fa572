#!/usr/bin/env python3
"""The step recorder for vLLM, with a made-up vllm module: what it writes is what vllm-profile reads, and what it is given back is untouched.

Usage: test_vllm_recorder.py BIN_DIR. Exit 77 when vllm-profile is not built.
"""
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import types
import unittest

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integrations", "vllm")


class Request:
    def __init__(self, name, prompt, output, arrival):
        self.request_id, self.num_prompt_tokens, self.arrival_time = name, prompt, arrival
        self.wanted, self.num_output_tokens, self.computed, self.num_cached_tokens = output, 0, 0, 0

    def is_finished(self):
        return self.num_output_tokens >= self.wanted


class BlockPool:
    num_gpu_blocks = 1000

    def get_num_free_blocks(self):
        return 999


class Scheduler:
    """Prefill first, then decode; enough of the shape of vLLM's."""

    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.kv_cache_manager = types.SimpleNamespace(block_pool=BlockPool())
        self.running, self.waiting, self.requests = [], [], {}
        self.closed = False

    def add_request(self, request):
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def _preempt_request(self, request, timestamp):
        self.preempted_at = timestamp

    def schedule(self):
        tokens = {}
        for request in self.running:
            tokens[request.request_id] = 1
        while self.waiting and len(self.running) < 8:
            request = self.waiting.pop(0)
            self.running.append(request)
            tokens[request.request_id] = request.num_prompt_tokens
        return types.SimpleNamespace(num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()))

    def update_from_output(self, scheduler_output, model_output):
        for name in scheduler_output.num_scheduled_tokens:
            request = self.requests[name]
            request.num_output_tokens += 1
            if request.is_finished():
                self.running.remove(request)
                del self.requests[name]
        return ("outputs", model_output)

    def shutdown(self):
        self.closed = True


class AsyncScheduler(Scheduler):
    pass


def fake_modules():
    names = ["vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched", "vllm.v1.core.sched.scheduler",
             "vllm.v1.core.sched.async_scheduler"]
    modules = {name: types.ModuleType(name) for name in names}
    modules["vllm"].__version__ = "0.0-test"
    modules["vllm.v1.core.sched.scheduler"].Scheduler = Scheduler
    modules["vllm.v1.core.sched.async_scheduler"].AsyncScheduler = AsyncScheduler
    return modules


def config():
    space = types.SimpleNamespace
    return space(
        scheduler_config=space(max_num_seqs=8, max_num_batched_tokens=8192, async_scheduling=False, enable_chunked_prefill=True,
                               policy="fcfs"),
        cache_config=space(block_size=16, enable_prefix_caching=True),
        compilation_config=space(cudagraph_capture_sizes=None, cudagraph_mode=None),
        model_config=space(model="tiny", max_model_len=4096))


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


class Recorder(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-recorder-")
        self.addCleanup(tmp.cleanup)
        self.dir = os.path.join(tmp.name, "recording")
        os.environ["VLLM_STEP_RECORDER_DIR"] = self.dir
        saved = {name: sys.modules.get(name) for name in fake_modules()}
        sys.modules.update(fake_modules())
        sys.path.insert(0, PLUGIN)
        sys.modules.pop("vllm_step_recorder", None)
        self.module = importlib.import_module("vllm_step_recorder")
        self.clock = Clock()
        self.module.time = self.clock

        def restore():
            sys.path.remove(PLUGIN)
            for name, module in saved.items():
                if module is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module
        self.addCleanup(restore)

    def record(self, cls, requests=120):
        scheduler = cls(config())
        dice = random.Random(1)
        pending = [Request(f"bench-{i}", dice.randint(20, 500), dice.randint(2, 20), 1e9 + 0.01 * i) for i in range(requests)]
        while pending or scheduler.requests:
            while pending and len(scheduler.waiting) < 3:
                scheduler.add_request(pending.pop(0))
            output = scheduler.schedule()
            tokens = output.total_num_scheduled_tokens
            self.clock.now += 0.005 + 0.0001 * tokens
            self.assertEqual(scheduler.update_from_output(output, "model"), ("outputs", "model"))
            self.clock.now += 0.0002
        scheduler._preempt_request(None or Request("x", 1, 1, 0), 5)
        self.assertEqual(scheduler.preempted_at, 5)
        scheduler.shutdown()
        self.assertTrue(scheduler.closed)

    def lines(self, name):
        with open(os.path.join(self.dir, name)) as file:
            return [json.loads(line) for line in file]

    def test_files_have_the_documented_shape(self):
        self.record(self.module.RecordingAsyncScheduler, requests=12)
        steps, requests = self.lines("steps.jsonl"), self.lines("requests.jsonl")
        self.assertEqual(list(steps[0]), ["step", "t_sched", "t_sched_end", "t_out", "total", "running", "waiting", "free_blocks",
                                          "preempted", "n"])
        self.assertEqual([s["step"] for s in steps], list(range(len(steps))))
        self.assertEqual(len(requests), 12)
        for key in ("request_id", "input_toks", "output_toks", "arrival_time", "queued_ts", "scheduled_ts", "first_token_ts",
                    "last_token_ts"):
            self.assertIsNotNone(requests[0][key], key)
        planned = sum(s["total"] for s in steps)
        self.assertEqual(planned, sum(r["input_toks"] + r["output_toks"] - 1 for r in requests))

    def test_vllm_profile_reads_it(self):
        self.record(self.module.RecordingScheduler)
        out = os.path.join(self.dir, "bundle")
        done = subprocess.run([os.path.join(BIN, "vllm-profile"), "--from-steps", self.dir, "--output", out],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(out, "step_bundle.json")) as file:
            bundle = json.load(file)
        terms = {t["feature"]: t["ms"] for t in bundle["eager"]["terms"] if t["from"] == 0}
        self.assertAlmostEqual(terms["tokens"], 100, delta=5)  # 0.1 ms a token
        self.assertAlmostEqual(terms["constant"], 5, delta=1)


if __name__ == "__main__":
    if not os.access(os.path.join(BIN, "vllm-profile"), os.X_OK):
        print("vllm-profile is not built")
        sys.exit(77)
    unittest.main()
