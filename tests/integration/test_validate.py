#!/usr/bin/env python3
"""`vllm-bench validate` and its wrappers from outside: the known summaries byte for byte, files, refusals.

Usage: test_validate.py BIN_DIR. Parts whose means are absent are skipped by name; exit 77 when the program is.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.abspath("build/release/bin")
BENCH = os.path.join(BIN, "vllm-bench")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = os.path.join(os.path.dirname(ROOT), "shared", "reference")
H200 = os.path.join(REFERENCE, "vllm-0.26-h200")
WORKLOADS = os.path.join(REFERENCE, "workloads")
OURS = os.path.join(ROOT, "bench", "examples", "EPYC-2c", "SmolLM2-135M-Instruct", "vllm")


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class ValidateCase(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-validate-")
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name

    def copy_run(self, source, name="run"):
        """A copy that may be written to; the reference is never touched."""
        target = os.path.join(self.dir, name)
        shutil.copytree(source, target, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(target):
            os.chmod(folder, 0o755)
        return target

    def simulation(self, run, error=1.05, blocks=56105, name="sim"):
        """A simulation of a recording that is off by a factor, in the simulator's formats."""
        rows = read_lines(os.path.join(run, "requests.jsonl"))
        start = min(r["queued_ts"] for r in rows)
        csv_path, log_path = (os.path.join(self.dir, name + end) for end in (".csv", ".log"))
        with open(csv_path, "w", newline="") as file:
            file.write("instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL\r\n")
            for i, r in enumerate(rows):
                arrival = int((r["queued_ts"] - start) * 1e9)
                ttft = int((r["first_token_ts"] - r["queued_ts"]) * 1e9 * error)
                latency = int((r["last_token_ts"] - r["queued_ts"]) * 1e9 * error)
                tpot = (latency - ttft) // max(r["output_toks"] - 1, 1)
                file.write(f"0,{i},m,{r['input_toks']},{r['output_toks']},{arrival},{arrival + latency},{latency},0,{ttft},{tpot},[]\r\n")
        with open(log_path, "w") as file:
            file.write(f"  • Instance [0] : {blocks * 16} tokens / {blocks} blocks\n"
                       "[1.0s] Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 2.0 tokens/s\n"
                       "        ├─Running Instance[0]: 1 reqs, Waiting: 0 reqs, Total # 1 NPUs\n")
        return ["--sim-csv", csv_path, "--sim-log", log_path]

    def validate(self, *arguments, expect=0):
        done = subprocess.run([BENCH, "validate", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stderr)
        if expect:
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done

    def text(self, *parts):
        with open(os.path.join(*parts), newline="") as file:
            return file.read()


@unittest.skipUnless(os.path.isdir(REFERENCE), "the reference data are not beside the checkout")
class Reference(ValidateCase):
    def examples(self):
        root = os.path.join(REFERENCE, "examples")
        for hardware in sorted(os.listdir(root)):
            for model in sorted(os.listdir(os.path.join(root, hardware))):
                yield os.path.join(root, hardware, model)

    def test_the_committed_summaries_byte_for_byte(self):
        seen = 0
        for example in self.examples():
            run = self.copy_run(os.path.join(example, "vllm"), os.path.basename(example))
            done = self.validate("--bench-dir", run, "--sim-csv", os.path.join(example, "outputs", "sim.csv"), "--sim-log",
                                 os.path.join(example, "outputs", "sim.log"), "--arrival-anchor", "queued", "--no-plots",
                                 "--workloads-root", WORKLOADS)
            wanted = self.text(example, "validation", "summary.txt")
            self.assertEqual(self.text(run, "validation", "summary.txt"), wanted, example)
            self.assertTrue(done.stdout.startswith(wanted))
            summary = json.loads(self.text(run, "validation", "summary.json"))
            checks = {check["name"]: check["result"] for check in summary["checks"]}
            self.assertEqual(checks["Dataset"], "equal")
            self.assertEqual(checks["Tokens"], "equal")
            seen += 1
        self.assertGreaterEqual(seen, 2)

    def test_the_published_matched_errors(self):
        for name, error in (("Llama-3.1-8B", 2.0), ("Qwen3-32B", 0.91)):
            example = os.path.join(REFERENCE, "examples", "RTXPRO6000", name)
            run = self.copy_run(os.path.join(example, "vllm"), name)
            self.validate("--bench-dir", run, "--sim-csv", os.path.join(example, "outputs", "sim.csv"), "--sim-log",
                          os.path.join(example, "outputs", "sim.log"), "--no-plots")
            matched = json.loads(self.text(run, "validation", "summary.json"))["latency_ms"]["matched"]
            self.assertEqual(matched["count"], 300)
            self.assertAlmostEqual(matched["mean_abs_pct"], error, delta=0.005)

    def test_the_other_anchor_lies_further_off(self):
        example = os.path.join(REFERENCE, "examples", "RTXPRO6000", "Llama-3.1-8B")
        run = self.copy_run(os.path.join(example, "vllm"))
        self.validate("--bench-dir", run, "--sim-csv", os.path.join(example, "outputs", "sim.csv"), "--sim-log",
                      os.path.join(example, "outputs", "sim.log"), "--no-plots")
        ttft = json.loads(self.text(run, "validation", "summary.json"))["ttft_ms"]
        self.assertEqual((round(ttft["mean"]["diff_pct"], 1), round(ttft["median"]["diff_pct"], 1)), (-4.3, -8.7))

    def test_the_noise_floor_of_five_replays(self):
        names = ["clean", "clean-2", "clean-3", "clean-4", "clean-5"]
        sources = [os.path.join(H200, "Llama-3.1-8B-replay-" + name) for name in names]
        runs = [self.copy_run(source, name) for source, name in zip(sources, names)]
        dirs = [word for run in runs for word in ("--bench-dir", run)]
        done = self.validate(*dirs, *self.simulation(runs[0]), "--arrival-anchor", "queued", "--no-plots")
        self.assertIn("derived from requests.jsonl", done.stdout)
        summary = json.loads(self.text(runs[0], "validation", "summary.json"))
        spread = [round(summary["ttft_ms"][s]["real_sd_pct"], 1) for s in ("mean", "median", "p90", "p95", "p99")]
        self.assertEqual(spread, [2.6, 3.8, 4.1, 4.0, 7.8])
        means = []
        for run in runs:
            rows = read_lines(os.path.join(run, "requests.jsonl"))
            means.append(statistics.mean((r["last_token_ts"] - r["first_token_ts"]) / (r["output_toks"] - 1) * 1000 for r in rows))
        self.assertAlmostEqual(summary["tpot_ms"]["mean"]["real"], statistics.mean(means), places=9)
        self.assertAlmostEqual(summary["tpot_ms"]["mean"]["real_sd"], statistics.stdev(means), places=9)
        self.assertEqual(summary["real_runs"][0]["timeseries"], "derived from requests.jsonl")
        self.assertTrue(any("56498" in note for note in summary["notes"]), "another start had another pool")

    def test_a_pool_of_no_recording_is_refused_and_forced(self):
        run = self.copy_run(os.path.join(H200, "Llama-3.1-8B-replay-clean"))
        sim = self.simulation(run, blocks=1000)
        done = self.validate("--bench-dir", run, *sim, "--no-plots", expect=2)
        self.assertIn("had 56105 KV blocks, the simulator 1000", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(run, "validation")))
        done = self.validate("--bench-dir", run, *sim, "--no-plots", "--force")
        for name in ("summary.txt", "summary.json", "report.html"):
            self.assertIn("had 56105 KV blocks, the simulator 1000", self.text(run, "validation", name), name)
        self.assertIn("NOT COMPARABLE (--force)", done.stdout)


class Ours(ValidateCase):
    def setUp(self):
        super().setUp()
        self.run_dir = self.copy_run(OURS)
        self.sim = self.simulation(self.run_dir, blocks=728)

    def test_files_and_their_names(self):
        done = self.validate("--bench-dir", self.run_dir, *self.sim, "--prefix", "p", "--output-subdir", "a/b", "--title", "T <b>&")
        names = sorted(os.listdir(os.path.join(self.run_dir, "a", "b")))
        plots = ["p_latency.png", "p_requests.png", "p_throughput.png"]
        wanted = ["p_report.html", "p_summary.json", "p_summary.txt"]
        if "gnuplot is not installed" not in done.stderr:
            wanted += plots
        self.assertEqual(names, sorted(wanted))
        for name in names:
            if name.endswith(".png"):
                with open(os.path.join(self.run_dir, "a", "b", name), "rb") as file:
                    self.assertEqual(file.read(4), b"\x89PNG")

    def test_the_report_stands_alone(self):
        self.validate("--bench-dir", self.run_dir, *self.sim, "--no-plots", "--title", "T <b>&")
        page = self.text(self.run_dir, "validation", "report.html")
        self.assertIn("<title>T &lt;b&gt;&amp;</title>", page)
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), r"https?://|<script|<link|<img|url\(")
        self.assertEqual(page.count("<svg"), 4)
        self.assertLess(page.index("statistics are"), page.index("<svg"), "verdicts come first")
        self.assertIn("scheduler.max_num_seqs", page)
        self.assertIn("resolved_config.Scheduler.max-num-seqs", page)
        for tag in ("table", "div", "svg", "details", "p", "tr", "td", "h2"):
            self.assertEqual(len(re.findall(rf"<{tag}[ >]", page)), page.count(f"</{tag}>"), tag)

    def test_two_runs_give_equal_files(self):
        texts = []
        for _ in range(2):
            self.validate("--bench-dir", self.run_dir, *self.sim, "--no-plots")
            texts.append([self.text(self.run_dir, "validation", name) for name in ("summary.txt", "summary.json", "report.html")])
        self.assertEqual(*texts)

    def test_refusals(self):
        def refused(*more, words, sim=None, run=self.run_dir):
            done = self.validate("--bench-dir", run, *(sim or self.sim), *more, "--no-plots", expect=2)
            for word in words:
                self.assertIn(word, done.stderr)

        refused(words=["there is no such folder"], run=os.path.join(self.dir, "nowhere"))
        refused(words=["no such file"], sim=["--sim-csv", "nowhere.csv", *self.sim[2:]])
        refused("--arrival-anchor", "middle", words=["--arrival-anchor", "pickup or queued"])
        requests = os.path.join(self.run_dir, "requests.jsonl")
        good = self.text(requests)
        with open(requests, "a") as file:
            file.write("{\n")
        refused(words=["requests.jsonl:65"])
        with open(requests, "w") as file:
            file.write("\n".join(good.splitlines()[:-1]) + "\n")
        refused(words=["is not complete: 63 of 64 requests"])
        with open(requests, "w") as file:
            file.write(good)
        meta = json.loads(self.text(self.run_dir, "meta.json"))
        meta["diagnostic"] = "paced"
        with open(os.path.join(self.run_dir, "meta.json"), "w") as file:
            json.dump(meta, file)
        refused(words=["diagnostic", "paced"])
        self.validate("--bench-dir", self.run_dir, *self.sim, "--no-plots", "--force")

    def test_wrapper(self):
        script = os.path.join(ROOT, "bench", "validate.sh")
        environment = dict(os.environ, VLLM_BENCH=BENCH, NO_PLOTS="1")
        done = subprocess.run([script, self.run_dir, self.sim[1], self.sim[3], "x"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.run_dir, "validation", "x_summary.txt")))
        self.assertEqual(subprocess.run([script, "one"], capture_output=True, env=environment).returncode, 2)
        environment["NO_PLOTS"] = "yes"
        self.assertEqual(subprocess.run([script, self.run_dir, self.sim[1], self.sim[3]], capture_output=True, env=environment).returncode, 2)


class Examples(ValidateCase):
    script = os.path.join(ROOT, "bench", "examples", "validate.sh")

    def run_script(self, *arguments):
        return subprocess.run([self.script, *arguments], capture_output=True, text=True, timeout=300, env=dict(os.environ, VLLM_BIN=BIN))

    @unittest.skipUnless(os.path.isdir(REFERENCE), "the reference data are not beside the checkout")
    def test_their_examples_with_their_simulations(self):
        done = self.run_script("--examples-root", os.path.join(REFERENCE, "examples"), "--workloads-root", WORKLOADS,
                               "--configs-root", os.path.join(REFERENCE, "configs"), "--profiles-root", os.path.join(REFERENCE, "perf"),
                               "--arrival-anchor", "queued", "--output-root", os.path.join(self.dir, "out"), "--no-plots")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("Llama-3.1-8B", "Qwen3-32B"):
            self.assertEqual(self.text(self.dir, "out", "RTXPRO6000", name, "validation", "summary.txt"),
                             self.text(REFERENCE, "examples", "RTXPRO6000", name, "validation", "summary.txt"))

    def test_wrong_usage(self):
        for arguments, words in ((["--nope"], "unknown option"), (["--mode"], "a value is missing"), (["a/b"], "is not there"),
                                 (["--examples-root", "/nowhere"], "there is no such folder")):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.run_script("--help").returncode, 0)


if __name__ == "__main__":
    if not os.path.exists(BENCH):
        print(f"{BENCH} is not built: skipped")
        sys.exit(77)
    unittest.main(verbosity=2)
