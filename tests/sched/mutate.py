#!/usr/bin/env python3
"""Breaks the scheduler's rules in our own code, one at a time, and shows which test sees it. Not part of scripts/test: it
compiles and runs the tests of each mutant, about half an hour on two cores.

    tests/sched/mutate.py BUILD_DIR [NAME ...]     BUILD_DIR: a release build, for its libraries

A mutant that no test sees is printed as SURVIVED and makes the exit code 1. Each mutation is a text of the source that
must occur exactly once (or is said to be the n-th), so a stale list is an error, not a mutant that was never made.
"""
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHED, TABLES, POOL, QUEUE = ("src/sched/scheduler.cpp", "src/sched/block_tables.cpp", "src/kv/block_pool.cpp",
                              "src/sched/waiting_queue.cpp")

# name, file, text, replacement, which occurrence (0: the only one)
MUTANTS = [
    ("surplus row at the end by length", SCHED, "if (r.last_token_in_flight()) {", "if (false) {", 0),
    ("threshold, running", SCHED, "if (threshold > 0) n = std::min(n, threshold);", "", 1),
    ("threshold, waiting", SCHED, "if (threshold > 0) n = std::min(n, threshold);", "", 2),
    ("no room for the output", SCHED, "max_model_len - 1 - r.num_computed", "max_model_len - r.num_computed", 0),
    ("a request without tokens ends the pass", SCHED, "    if (n <= 0) {\n      ++i;\n      continue;\n    }", "    if (n <= 0) return;", 0),
    ("fcfs takes the oldest", SCHED, "if (options.policy == SchedulingPolicy::kFcfs) return worst;", "if (options.policy == SchedulingPolicy::kFcfs) return 0;", 0),
    ("tie: the last in running", SCHED, "std::tie(candidate.priority, candidate.arrival_ns) >=", "std::tie(candidate.priority, candidate.arrival_ns) >", 0),
    ("admission after a preemption", SCHED, "if (s.preempted.empty()) s.plan_waiting();", "s.plan_waiting();", 0),
    ("a victim's tokens are lost", SCHED, "  budget += r.step_tokens;\n", "", 0),
    ("a victim's uncomputed blocks stay named", SCHED, "  tables.forget_uncomputed(r);\n", "", 0),
    ("vLLM's jump over a running request", SCHED, "if (j < position) --position;", "", 0),
    ("preempting oneself does not end the pass", SCHED, "&& !make_room(i, upto)) return;", "&& !make_room(i, upto)) continue;", 0),
    ("victims go to the end of the queue", SCHED, "waiting.add_preempted(slot);", "waiting.add(slot);", 0),
    ("watermark also when nothing runs", SCHED, "running.empty() ? 0 : watermark_blocks", "watermark_blocks", 0),
    ("no watermark", SCHED, "running.empty() ? 0 : watermark_blocks", "0", 0),
    ("one seat too many", SCHED, "running.size() >= static_cast<size_t>(options.max_num_seqs)", "running.size() > static_cast<size_t>(options.max_num_seqs)", 0),
    ("chunks although they are off", SCHED, "if (!options.enable_chunked_prefill && n > budget) return;", "", 0),
    ("reserve is always on", SCHED, "hit_tokens + n, options.reserve_full_isl, spare", "hit_tokens + n, true, spare", 0),
    ("reserve is always off", SCHED, "hit_tokens + n, options.reserve_full_isl, spare", "hit_tokens + n, false, spare", 0),
    ("a resumed request computes its prompt alone", SCHED, "int32_t n = r.num_tokens - hit_tokens;", "int32_t n = std::max(1, r.num_prompt - hit_tokens);", 0),
    ("no index at outputs", SCHED, "if (r.running && computed >= r.index_at) s.tables.index(r, computed);", "", 0),
    ("index at outputs too far", SCHED, "const int32_t computed = r.num_computed - r.in_flight;", "const int32_t computed = std::min(r.num_computed, r.num_tokens);", 0),
    ("min_tokens is not first", SCHED, "if (request.num_generated() < request.min_tokens) return std::nullopt;", "", 0),
    ("min_tokens off by one", SCHED, "request.num_generated() < request.min_tokens", "request.num_generated() <= request.min_tokens", 0),
    ("eos although ignored", SCHED, "if (!request.ignore_eos && contains(", "if (contains(", 0),
    ("min_tokens is not clamped", SCHED, "std::min(input.min_tokens, s.max_model_len - r.num_prompt)", "input.min_tokens", 0),
    ("the preempted keep their outputs back", SCHED, "    --r.in_flight;\n", "    --r.in_flight;\n    if (!r.running) continue;\n", 0),
    ("queries count at every admission", SCHED, "r.admitted_before = true;", "", 0),
    ("ended requests are not told", SCHED, "  ended.push_back(r.id);\n", "", 0),
    ("the fit check forgets one position", SCHED, "max_model_len) - 1;", "max_model_len);", 0),
    ("the whole prompt may hit", TABLES, "(request.num_tokens - 1) / block_size_", "request.num_tokens / block_size_", 0),
    ("free hits are no need", TABLES, "free_hits += pool_.references(table[i]) == 0 ? 1 : 0;", "", 0),
    ("the reserve looks at the prompt", TABLES, "int64_t whole = blocks_for(request.num_tokens) - first;", "int64_t whole = blocks_for(request.num_prompt) - first;", 0),
    ("a window loses one position", TABLES, "request.num_computed - group.window + 1) / block_size_", "request.num_computed - group.window + 1 + block_size_) / block_size_", 0),
    ("windows are never freed", TABLES, "if (request.num_computed >= request.drop_at) drop_outside_window(request);", "", 0),
    ("a hit lacks a block of its window", TABLES, "group.window_blocks = blocks_for(group.window - 1);", "group.window_blocks = blocks_for(group.window - 1) - 1;", 0),
    ("sliding groups do not shorten hits", TABLES, "if (table[i] == kNoBlock) end = i;", "if (table[i] == kNoBlock) table[i] = kNullBlock;", 0),
    ("groups share names", TABLES, "request.hashes[static_cast<size_t>(i)], g);\n    }", "request.hashes[static_cast<size_t>(i)], 0);\n    }", 0),
    ("a salt does not separate", TABLES, "request.root = hasher_.root(cache_salt);", "request.root = hasher_.root({});", 0),
    ("recurrent layers hit", TABLES, "if (!group.has_blocks) caching_ = false;", "", 0),
    ("the null block is given out", POOL, "policy_.null_block ? 1 : 0; b < sentinel()", "0; b < sentinel()", 0),
    ("unhashed blocks to the tail", POOL, "if (block.group < 0 && policy_.unhashed_to_front) {", "if (false) {", 0),
    ("unhashed blocks one by one", POOL, "      front = b;\n", "", 0),
    ("hashed blocks to the head", POOL, "insert_after(blocks_[at(sentinel())].previous, b);\n    }", "insert_after(sentinel(), b);\n    }", 2),
    ("released first to last", POOL, "const BlockId b = blocks[i];", "const BlockId b = blocks[blocks.size() - 1 - i];", 0),
    ("the one indexed last is hit", POOL, "if (block.hash == hash && block.group == group) return b;", "if (block.hash == hash && block.group == group) return block.same_previous;", 0),
    ("a freed block loses its name", POOL, "if (--block.references > 0) continue;", "if (--block.references > 0) continue;\n    forget(b);", 0),
    ("a reused block keeps its name", POOL, "  unlink(block);\n  forget(block);", "  unlink(block);", 0),
    ("priority without arrival", QUEUE, "std::tie(x.priority, x.arrival_ns, x.sequence) < std::tie(y.priority, y.arrival_ns, y.sequence)", "std::tie(x.priority, x.sequence) < std::tie(y.priority, y.sequence)", 0),
    ("priority without sequence", QUEUE, "std::tie(x.priority, x.arrival_ns, x.sequence) < std::tie(y.priority, y.arrival_ns, y.sequence)", "std::tie(x.priority, x.arrival_ns, y.sequence) < std::tie(y.priority, y.arrival_ns, x.sequence)", 0),
    ("the heap is not repaired upwards", QUEUE, "    sift_up(hole);\n", "", 0),
]

CORE = ["src/kv/block_pool.cpp", "src/kv/prefix_hash.cpp", "src/sched/block_tables.cpp", "src/sched/request_table.cpp",
        "src/sched/scheduler.cpp", "src/sched/waiting_queue.cpp"]


def squeeze(text):
    return " ".join(text.split())


def mutate(text, old, new, which):
    """Replaces one occurrence, whatever the line breaks that formatting put into it."""
    import re
    pattern = r"\s*".join(re.escape(part) for part in re.findall(r"\w+|[^\w\s]", old))
    found = list(re.finditer(pattern, text))
    if len(found) != 1 and which == 0 or len(found) < which:
        sys.exit(f"mutate.py: '{squeeze(old)}' occurs {len(found)} times; the list is stale")
    at = found[max(0, which - 1)]
    return text[:at.start()] + new.strip("\n") + text[at.end():]


class Workshop:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.flags = ["-std=c++20", "-O1", "-w", f"-I{ROOT}/src", f"-I{ROOT}/tests", f'-DVLLM_SOURCE_DIR="{ROOT}"',
                      '-DVLLM_BIN_DIR=""', "-include", f"{ROOT}/tests/support/pch.h"]
        libraries = [f"{build}/lib/libvllm_{n}.a" for n in ("kv", "config", "formats", "base")]
        self.link = libraries + [f"-l{n}" for n in ("gtest", "gtest_main", "gmock", "simdjson", "z", "yaml-cpp", "spdlog",
                                                    "fmt", "xxhash", "crypto", "pthread")]
        tests = sorted(glob.glob(f"{ROOT}/tests/sched/*_test.cpp")) + [f"{ROOT}/tests/kv/block_pool_test.cpp"]
        support = [f"{ROOT}/tests/support/{n}.cpp" for n in ("random_world", "reference", "checker_kv_conservation",
                   "checker_kv_truth", "checker_plan_consistency", "checker_request_lifecycle")]
        self.fixed = [self.compile(f) for f in tests + support]
        self.core = {f: self.compile(f"{ROOT}/{f}") for f in CORE}

    def compile(self, source, name=None):
        target = os.path.join(self.folder, (name or os.path.relpath(source, ROOT).replace("/", "_")) + ".o")
        subprocess.run(["g++", *self.flags, "-c", source, "-o", target], check=True)
        return target

    def run(self, core):
        program = os.path.join(self.folder, "tests")
        subprocess.run(["g++", "-o", program, *self.fixed, *core.values(), *self.link], check=True)
        for stage, selection in (("by hand", "-SchedulerRandom*:SchedulerOracle*"), ("random", "SchedulerRandom*"),
                                 ("model", "SchedulerOracle.Plans*")):
            try:
                done = subprocess.run([program, f"--gtest_filter={selection}", "--gtest_fail_fast=1", "--gtest_brief=1"],
                                      capture_output=True, text=True, timeout=300)
            except subprocess.TimeoutExpired:
                return f"{stage}: does not end"
            if done.returncode != 0:
                failed = [l.split("]")[1].split("(")[0].strip() for l in done.stdout.split("\n") if l.startswith("[  FAILED  ]")]
                return f"{stage}: {failed[0] if failed else f'ended with {done.returncode}'}"
        return None

    def try_mutant(self, file, old, new, which):
        text = mutate(open(f"{ROOT}/{file}").read(), old, new, which)
        source = os.path.join(self.folder, "mutant.cpp")
        with open(source, "w") as out:
            out.write(text)
        return self.run({**self.core, file: self.compile(source, "mutant")})


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    wanted = sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(os.path.abspath(sys.argv[1]), folder)
        if (seen := shop.run(shop.core)) is not None:
            sys.exit(f"mutate.py: the tests fail without any mutation: {seen}")
        survivors = 0
        for name, file, old, new, which in MUTANTS:
            if wanted and not any(w in name for w in wanted):
                continue
            seen = shop.try_mutant(file, old, new, which)
            survivors += seen is None
            print(f"{name:50s} {seen or 'SURVIVED'}", flush=True)
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
