#!/usr/bin/env python3
"""Replays a trace of our scheduler through the Python model of its rules and compares.

    model_driver.py MODEL_DIR TRACE             compare plans, queues and free list after every operation
    model_driver.py MODEL_DIR TRACE --switches  the same once for each rule that the model can break: every one must
                                                then differ somewhere, or the trace does not exercise that rule

The trace (written by oracle_test.cpp) has one JSON object a line. {"op": "config"} begins a scenario; add, abort, plan,
outputs and reset follow. The answer is one JSON object a line on stdout.
"""
import importlib
import json
import sys

# The model's table of switches for its logs, and the rules that only random requests reach.
LATER = [("wm_running", False), ("wm_phase_a", True), ("threshold_a", False), ("threshold_b", False),
         ("chunk_after_threshold", False), ("min_first", False), ("victim_tie", "last"), ("plan_keeps_entry", True),
         ("maxlen_room", 0), ("vllm_jump", True)]


class Difference(Exception):
    pass


def our_model(model):
    class Ours(model.Sched):
        """The model, and the one rule of ours that it lacks: a victim that was planned in this step (possible with
        priorities) takes back the hashes of blocks that only this entry would have computed."""

        def preempt(self, victim, planned):
            for i in range(victim.comp // self.bs, victim.nidx):
                block = victim.blocks[i]
                same = self.map[self.bhash[block]]
                del same[block]
                if not same:
                    del self.map[self.bhash[block]]
                self.bhash[block] = None
            super().preempt(victim, planned)

    return Ours


def free_list(s):
    out, b = [], s.free.nx[s.free.H]
    while b != s.free.T:
        out.append(b)
        b = s.free.nx[b]
    return out


class Replay:
    def __init__(self, model, config, rules):
        names = ("nblocks", "max_seqs", "budget", "max_len", "bs", "policy", "threshold", "watermark", "chunked",
                 "caching", "depth")
        rules = dict(rules)
        rules.setdefault("isl", "tokens" if config["reserve_full_isl"] else None)
        self.model = model
        self.s = our_model(model)(**{k: config[k] for k in names}, **rules)
        self.flight = []

    def expect(self, what, ours, theirs):
        if ours != theirs:
            raise Difference(f"{what}: ours {ours}, model {theirs}")

    def compare_state(self, op):
        self.expect("running", op["running"], [r.id for r in self.s.running])
        self.expect("waiting", op["waiting"], [r.id for r in self.s.waiting])
        self.expect("free list", op["free"], free_list(self.s))

    def apply(self, op):
        s, kind = self.s, op["op"]
        if kind == "add":
            r = self.model.Req(op)
            r.min = min(r.min, s.max_len - r.prompt)  # ours; the model leaves it to its caller
            s.reqs[r.id] = r
            s.add(r)
        elif kind == "abort":
            s.end(s.reqs[op["i"]])
        elif kind == "plan":
            n, preempted, ends = s.schedule()
            self.flight.append((n, ends))
            self.expect("entries (id, tokens, computed before, samples)", op["n"],
                        [[q, k, s.reqs[q].comp - k, ends[q]] for q, k in n.items()])
            self.expect("preempted", op["preempted"], preempted)
            self.compare_state(op)
        elif kind == "outputs":
            n, ends = self.flight.pop(0)
            before = {q: s.reqs[q].nout for q in n}
            s.update(n, ends, {q: t for q, t in op["tokens"]})
            self.expect("outputs (id, end)", op["outputs"],
                        [[q, s.reqs[q].why] for q in n if s.reqs[q].nout > before[q]])
            self.compare_state(op)
        elif kind == "reset":
            done = s.reset_cache()
            if done:  # ours also puts the free list into its initial order
                s.free = type(s.free)(len(s.ref), range(1 if s.R.null_block else 0, len(s.ref)))
            self.expect("reset allowed", op["done"], done)
        elif kind == "cached":
            self.expect("cached tokens", op["cached"], [[q, s.reqs[q].cached] for q, _ in op["cached"]])


def compare(model, scenarios, rules):
    """Counts and the first difference; `rules` override the model's."""
    plans = outputs = 0
    for config, ops in scenarios:
        if "isl" in rules and not config["reserve_full_isl"]:
            continue  # this switch says in what way the test that is off would be wrong
        replay = Replay(model, config, rules)
        for line, op in ops:
            try:
                replay.apply(op)
            except Difference as difference:
                return plans, outputs, f"line {line}, seed {config['seed']}: {difference}"
            except Exception as error:  # a broken rule may break the model itself, which is a difference too
                if not rules:
                    raise
                return plans, outputs, f"line {line}, seed {config['seed']}: model broke: {error!r}"
            plans += op["op"] == "plan"
            outputs += op["op"] == "outputs"
    return plans, outputs, None


def main():
    sys.path.insert(0, sys.argv[1])
    model = importlib.import_module("model")
    scenarios = []
    with open(sys.argv[2]) as trace:
        for number, line in enumerate(trace, 1):
            op = json.loads(line)
            if op["op"] == "config":
                scenarios.append((op, []))
            else:
                scenarios[-1][1].append((number, op))
    switches = [{}]
    if "--switches" in sys.argv:
        switches = [{rule: value} for rule, value in model.ABL + LATER]
    for rules in switches:
        plans, outputs, difference = compare(model, scenarios, rules)
        print(json.dumps(dict(rules=rules, scenarios=len(scenarios), plans=plans, outputs=outputs,
                              difference=difference)), flush=True)


if __name__ == "__main__":
    main()
