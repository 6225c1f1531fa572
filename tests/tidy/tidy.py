#!/usr/bin/env python3
"""House rules that a program can check. Usage: tidy.py ROOT [--no-format]; exit 1 lists every violation.

`tidy.py --self-test` feeds each rule a violation and fails when the rule does not see it.
"""
import os
import re
import subprocess
import sys

# A folder may include those before it; front ends (from "server" on) do not include each other.
ORDER = ["base", "formats", "config", "metrics", "kv", "sched", "sample", "model", "text", "backend", "net", "workload",
         "engine", "server", "sim", "profile", "bench"]
FRONT_ENDS = ["server", "sim", "profile", "bench"]
FRONT_END_EXCEPTIONS = {("bench", "sim"), ("bench", "profile"), ("profile", "sim")}

# Pattern, what it is called, and the files that own it.
BANNED = [
    (r"\b(steady_clock|system_clock|high_resolution_clock)\b", "a clock of the standard library", ["src/base/clock.cpp"]),
    (r"\b(clock_gettime|gettimeofday|clock_nanosleep|nanosleep|usleep)\s*\(", "a clock call", ["src/base/clock.cpp"]),
    (r"(?<![\w.>:])time\s*\(\s*(nullptr|NULL|0|&\w+)?\s*\)", "time()", ["src/base/clock.cpp"]),
    (r"\bsleep_(for|until)\s*\(", "sleeping past the clock", ["src/base/clock.cpp"]),
    (r"\b(s?rand|random|drand48)\s*\(\s*\)|\brandom_device\b|\bmt19937", "randomness outside base/random.h", []),
    (r"\b(secure_)?getenv\s*\(", "getenv", []),
    (r"(?<![\w:])new\s+[A-Za-z_:<(]", "raw new", []),
    (r"(?<![\w:=])\bdelete\b(\s*\[\s*\])?\s+?[A-Za-z_*(]", "raw delete", []),
    (r"(?<![\w.>])(malloc|calloc|realloc|free)\s*\(", "malloc or free", []),
    (r"\busing\s+namespace\s+std\b", "using namespace std", []),
    (r"\b(TODO|FIXME|XXX)\b", "an unfinished note", []),
]
# What decides exists once: sim/ links the scheduler and the pool and asks them; it has no queue, budget or block
# arithmetic of its own. Bytes of blocks are memory_model's.
SIM_DECIDES = [
    (r"\b(WaitingQueue|RequestTable|BlockTables|PrefixHasher)\b", "a part of the scheduler"),
    (r"\bBlockPool\s+\w+\s*[;({=]", "a block pool of its own"),
    (r"\b\w*(budget|waiting_queue|free_list)\w*\b", "a queue, budget or free list of its own"),
    (r"[/%*]\s*(\w+(\.|->))*block_size\b|\bblock_size(\(\))?\s*[/%*]", "block arithmetic"),
]
SIM_DECIDES_OWNERS = ["src/sim/memory_model.cpp", "src/sim/memory_model.h"]
CODE_DIRS = ["src", "apps", "include", "benchmarks"]
FORMATTED_DIRS = ["src", "apps", "include", "benchmarks", "tests", "examples"]
MAX_LINES = 800
CODE_SUFFIXES = (".cpp", ".h", ".inc")


def strip_comments_and_strings(text):
    """Blanks out comments, strings and characters, keeping line numbers. Raw strings too."""
    pattern = re.compile(r'R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)

    def blank(match):
        kept = "".join(c if c == "\n" else " " for c in match.group(0))
        return kept

    return pattern.sub(blank, text)


def tracked_files(root):
    out = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                         capture_output=True, text=True).stdout.split("\n")
    return [f for f in out if f and os.path.isfile(os.path.join(root, f))]


def folder_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_includes(path, text, files):
    own = folder_of(path)
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        target = match.group(1)
        folder = target.split("/")[0]
        if path.startswith("src/") and target.startswith("../"):
            yield f"{path}:{number}: include \"{target}\" from the root of src/"
        if own is None or folder not in ORDER:
            continue
        if f"src/{target}" not in files:
            yield f"{path}:{number}: include \"{target}\" names no file of src/"
        elif folder != own and ORDER.index(folder) > ORDER.index(own):
            yield f"{path}:{number}: {own}/ may not include {folder}/ (order: {' '.join(ORDER)})"
        elif folder != own and folder in FRONT_ENDS and own in FRONT_ENDS and (own, folder) not in FRONT_END_EXCEPTIONS:
            yield f"{path}:{number}: the front end {own}/ may not include the front end {folder}/"


def check_banned(path, text):
    if path.split("/")[0] not in CODE_DIRS:
        return
    code = strip_comments_and_strings(text)
    for number, (line, original) in enumerate(zip(code.split("\n"), text.split("\n")), 1):
        for pattern, name, owners in BANNED:
            if path in owners:
                continue
            searched = original if name == "an unfinished note" else line
            # "= delete" is a declaration, not a call.
            if re.search(pattern, re.sub(r"=\s*delete", "", searched)):
                yield f"{path}:{number}: {name}"


def check_sim_decides(path, text):
    if not path.startswith("src/sim/") or path in SIM_DECIDES_OWNERS:
        return
    for number, line in enumerate(strip_comments_and_strings(text).split("\n"), 1):
        for pattern, name in SIM_DECIDES:
            if re.search(pattern, line):
                yield f"{path}:{number}: {name}: sim/ asks the scheduler and the pool"


def check_length(path, text):
    lines = text.count("\n")
    if path.endswith(CODE_SUFFIXES + (".py",)) and lines > MAX_LINES:
        yield f"{path}: {lines} lines, at most {MAX_LINES}"


def check_header(path, text):
    if path.endswith(".h") and "#pragma once" not in text.split("\n\n")[0]:
        yield f"{path}: does not begin with #pragma once"


def check_unused(files, texts):
    """A header that nobody includes, a script, document or picture that nothing names."""
    included = set()
    for path, text in texts.items():
        for match in re.finditer(r'#\s*include\s+"([^"]+)"', text):
            included.add(match.group(1))
            included.add(os.path.normpath(os.path.join(os.path.dirname(path), match.group(1))))
    for path in files:
        if path.endswith((".h", ".inc")):
            short = path.split("/", 1)[1]
            if short not in included and path not in included and not path.startswith("include/") and not path.endswith("/pch.h"):
                yield f"{path}: nothing includes it"
    named = "\n".join(text for path, text in texts.items())
    for path in files:
        if path.startswith(("scripts/", "docs/", "cmake/")) or path.endswith((".sh", ".png", ".svg")):
            if path.startswith("bench/examples/"):
                continue
            name = os.path.basename(path)
            stem = os.path.splitext(name)[0]
            users = named.replace(texts.get(path, "\0"), "") if path in texts else named
            if name not in users and not (path.startswith("cmake/") and stem in users):
                yield f"{path}: nothing names it"


def check_format(root, files):
    sources = [f for f in files if f.split("/")[0] in FORMATTED_DIRS and f.endswith((".cpp", ".h"))]
    if not sources:
        return
    run = subprocess.run(["clang-format", "--dry-run", "--ferror-limit=1"] + sources, cwd=root, capture_output=True, text=True)
    for line in run.stderr.split("\n"):
        if "warning: code should be clang-formatted" in line:
            yield line.split(" warning:")[0] + " not as clang-format has it"


def check_tree(root, with_format=True):
    files = tracked_files(root)
    names = set(files)
    texts = {}
    for path in files:
        if path.endswith(CODE_SUFFIXES + (".py", ".sh", ".txt", ".cmake", ".md", ".json", ".yaml")) or "." not in os.path.basename(path):
            if os.path.getsize(os.path.join(root, path)) < 1 << 20:
                with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
                    texts[path] = f.read()
    problems = []
    for path, text in sorted(texts.items()):
        if path.endswith(CODE_SUFFIXES):
            problems += check_includes(path, text, names)
            problems += check_banned(path, text)
            problems += check_sim_decides(path, text)
            problems += check_header(path, text)
        problems += check_length(path, text)
    problems += check_unused(files, texts)
    if with_format:
        problems += check_format(root, files)
    return problems


def self_test():
    bad = {
        "auto t = std::chrono::steady_clock::now();": "a clock of the standard library",
        "int64_t t = time(nullptr);": "time()",
        "std::this_thread::sleep_for(x);": "sleeping past the clock",
        "int r = rand();": "randomness outside base/random.h",
        "std::mt19937 generator;": "randomness outside base/random.h",
        'const char* v = getenv("X");': "getenv",
        "auto* p = new Foo();": "raw new",
        "delete p;": "raw delete",
        "void* p = malloc(3);": "malloc or free",
        "// TODO later": "an unfinished note",
    }
    for code, name in bad.items():
        found = list(check_banned("src/kv/x.cpp", code + "\n"))
        assert any(name in f for f in found), f"{code!r} was not seen as {name}"
    good = ['// a new block is free\n', 'const char* s = "new Foo";\n', "Foo(const Foo&) = delete;\n", "runtime(x); first_time();\n",
            "pool.free(b);\n", "queue.random_order();\n"]
    for code in good:
        assert not list(check_banned("src/kv/x.cpp", code)), code
    for code in ["WaitingQueue queue;", "BlockPool pool(3);", "int token_budget = 3;", "n = tokens / spec.block_size;",
                 "n = block_size * 3;"]:
        assert list(check_sim_decides("src/sim/x.cpp", code)), code
        assert not list(check_sim_decides("src/sched/x.cpp", code)), code
    assert not list(check_sim_decides("src/sim/x.cpp", "const BlockPool& pool = scheduler.pool();"))
    names = {"src/sched/scheduler.h", "src/kv/plan.h", "src/sim/a.h", "src/server/a.h"}
    assert list(check_includes("src/kv/a.cpp", '#include "sched/scheduler.h"\n', names))
    assert not list(check_includes("src/sched/a.cpp", '#include "kv/plan.h"\n', names))
    assert list(check_includes("src/server/a.cpp", '#include "sim/a.h"\n', names))
    assert not list(check_includes("src/bench/a.cpp", '#include "sim/a.h"\n', names))
    assert list(check_includes("src/kv/a.cpp", '#include "kv/none.h"\n', names))
    assert list(check_length("a.cpp", "\n" * 801)) and not list(check_length("a.cpp", "\n" * 800))
    assert list(check_header("a.h", "int x;\n"))
    assert list(check_unused(["src/kv/a.h"], {"src/kv/a.h": ""}))
    assert not list(check_unused(["src/kv/a.h"], {"src/kv/a.h": "", "src/kv/b.cpp": '#include "kv/a.h"\n'}))
    assert list(check_unused(["scripts/x"], {"scripts/x": "echo"}))
    print("tidy: every rule sees its violation")


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    problems = check_tree(os.path.abspath(sys.argv[1]), "--no-format" not in sys.argv)
    for problem in problems:
        print(problem)
    print(f"tidy: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
