"""A scheduler class for vLLM that only writes: one line for every step, and one for every finished request.

Decisions are vLLM's own; the files are a recording that `vllm-profile --from-steps` reads. See README.md beside this file.
"""
import json
import os
import time

from vllm.v1.core.sched.scheduler import Scheduler

try:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
except ImportError:  # versions without asynchronous scheduling
    AsyncScheduler = None

FLUSH_EVERY = 256  # steps


def text(value):
    return None if value is None else str(value)


class StepWriter:
    """The files of one engine. Times are seconds on the monotonic clock, as vLLM's own stamps are."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.steps = open(os.path.join(folder, "steps.jsonl"), "w")
        self.requests = open(os.path.join(folder, "requests.jsonl"), "w")
        self.written = 0

    def write_meta(self, config, num_blocks):
        scheduler, cache = config.scheduler_config, config.cache_config
        compilation = getattr(config, "compilation_config", None)
        sizes = getattr(compilation, "cudagraph_capture_sizes", None)
        mode = getattr(compilation, "cudagraph_mode", None)
        meta = {
            "schema_version": 1,
            "hardware": device_name(),
            "vllm_version": vllm_version(),
            "engine_kwargs": {
                "model": text(getattr(config.model_config, "model", None)),
                "max_num_seqs": scheduler.max_num_seqs,
                "max_num_batched_tokens": scheduler.max_num_batched_tokens,
                "max_model_len": config.model_config.max_model_len,
                "enable_prefix_caching": bool(cache.enable_prefix_caching),
            },
            "scheduler": {name: text(getattr(scheduler, name, None))
                          for name in ("async_scheduling", "enable_chunked_prefill", "policy", "scheduler_reserve_full_isl",
                                       "watermark", "long_prefill_token_threshold")},
            "num_gpu_blocks": num_blocks,
            "block_size": cache.block_size,
            "cudagraph_mode": getattr(mode, "name", None) or text(mode),
            "capture_sizes": sorted(sizes) if sizes else None,
            "note": "step recorder on",
        }
        with open(os.path.join(self.folder, "meta.json"), "w") as file:
            json.dump(meta, file, indent=1)
            file.write("\n")

    def step(self, record, out_time):
        record["t_out"] = out_time
        ordered = {key: record[key] for key in ("step", "t_sched", "t_sched_end", "t_out", "total", "running", "waiting",
                                                "free_blocks", "preempted", "n")}
        self.steps.write(json.dumps(ordered) + "\n")
        self.written += 1
        if self.written % FLUSH_EVERY == 0:
            self.flush()

    def request(self, record):
        self.requests.write(json.dumps(record) + "\n")

    def flush(self):
        self.steps.flush()
        self.requests.flush()

    def close(self):
        self.steps.close()
        self.requests.close()


def vllm_version():
    import vllm
    return text(getattr(vllm, "__version__", None)) or ""


def device_name():
    try:
        from vllm.platforms import current_platform
        return text(current_platform.get_device_name()) or ""
    except Exception:  # a name is all that is missing then
        return ""


class RecordingMixin:
    """Stands in front of a scheduler class. Every method calls the one behind it, with the same arguments and result."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        folder = os.environ.get("VLLM_STEP_RECORDER_DIR", "vllm-steps")
        self._writer = StepWriter(folder)
        self._writer.write_meta(self.vllm_config, self.kv_cache_manager.block_pool.num_gpu_blocks)
        self._number = 0
        self._in_flight = {}  # id of a scheduler output: its record and the requests in it
        self._seen = {}       # request id: what requests.jsonl will say of it
        self._preempted = []

    def add_request(self, request, *args, **kwargs):
        result = super().add_request(request, *args, **kwargs)
        self._seen[request.request_id] = {
            "request_id": request.request_id,
            "input_toks": request.num_prompt_tokens,
            "output_toks": 0,
            "arrival_time": request.arrival_time,
            "queued_ts": time.monotonic(),
            "scheduled_ts": None,
            "first_token_ts": None,
            "last_token_ts": None,
            "num_cached_tokens": None,
        }
        return result

    def _preempt_request(self, request, *args, **kwargs):
        self._preempted.append(request.request_id)
        return super()._preempt_request(request, *args, **kwargs)

    def schedule(self, *args, **kwargs):
        self._preempted = []
        begin = time.monotonic()
        output = super().schedule(*args, **kwargs)
        end = time.monotonic()
        scheduled = dict(output.num_scheduled_tokens)
        record = {
            "step": self._number,
            "t_sched": begin,
            "t_sched_end": end,
            "total": output.total_num_scheduled_tokens,
            "running": len(self.running),
            "waiting": len(self.waiting),
            "free_blocks": self.kv_cache_manager.block_pool.get_num_free_blocks(),
            "preempted": self._preempted,
            "n": scheduled,
        }
        self._number += 1
        requests = {}
        for request_id in scheduled:
            request = self.requests[request_id]
            requests[request_id] = request
            seen = self._seen.get(request_id)
            if seen is not None and seen["scheduled_ts"] is None:
                seen["scheduled_ts"] = begin
                seen["num_cached_tokens"] = max(0, getattr(request, "num_cached_tokens", 0) or 0)
        self._in_flight[id(output)] = (record, requests, output)
        return output

    def update_from_output(self, scheduler_output, *args, **kwargs):
        now = time.monotonic()
        record, requests, _ = self._in_flight.pop(id(scheduler_output), (None, {}, None))
        before = {request_id: request.num_output_tokens for request_id, request in requests.items()}
        result = super().update_from_output(scheduler_output, *args, **kwargs)
        for request_id, request in requests.items():
            seen = self._seen.get(request_id)
            if seen is None:
                continue
            if request.num_output_tokens > before[request_id]:
                seen["output_toks"] = request.num_output_tokens
                seen["last_token_ts"] = now
                if seen["first_token_ts"] is None:
                    seen["first_token_ts"] = now
            if request.is_finished():
                self._writer.request(self._seen.pop(request_id))
        if record is not None:
            self._writer.step(record, now)
        return result

    def shutdown(self, *args, **kwargs):
        self._writer.close()
        return super().shutdown(*args, **kwargs)


class RecordingScheduler(RecordingMixin, Scheduler):
    """--scheduler-cls vllm_step_recorder.RecordingScheduler, with --no-async-scheduling."""


if AsyncScheduler is not None:

    class RecordingAsyncScheduler(RecordingMixin, AsyncScheduler):
        """--scheduler-cls vllm_step_recorder.RecordingAsyncScheduler, with asynchronous scheduling (the default)."""
