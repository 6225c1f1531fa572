#!/usr/bin/env python3
"""Writes the small checkpoints that the readers' tests read, with other people's writers.

Made with gguf==0.17.1, safetensors==0.6.2, numpy==2.2.6 (pip install them into a virtual environment). The values
are fixed, so that a second run writes the same bytes.
"""

import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent


def small_gguf(path, alignment=None):
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4000000000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**62))
    writer.add_float32("t.f32", 0.5)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.true", True)
    writer.add_bool("t.false", False)
    writer.add_string("t.string", "caf\u00e9 \u4f60")
    writer.add_array("t.ints", [1, -2, 3])
    writer.add_array("t.floats", [0.5, -1.25])
    writer.add_array("t.strings", ["a", "", "long enough not to be stored in place"])
    writer.add_array("t.bools", [True, False, True])

    f32 = (np.arange(6, dtype=np.float32) - 2.5).reshape(2, 3)
    writer.add_tensor("f32", f32)
    writer.add_tensor("f16", (np.arange(4, dtype=np.float16) / 4).reshape(4))
    writer.add_tensor("i32", np.arange(5, dtype=np.int32).reshape(1, 5))
    values = (np.arange(3 * 64, dtype=np.float32) - 96).reshape(3, 64) / 7
    for kind in (gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.BF16):
        writer.add_tensor(kind.name.lower(), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shards(folder):
    folder.mkdir(exist_ok=True)
    first = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}
    second = {"b.weight": np.arange(4, dtype=np.float16), "c.weight": np.ones((2, 2), dtype=np.float32)}
    save_file(first, folder / "model-00001-of-00002.safetensors")
    save_file(second, folder / "model-00002-of-00002.safetensors")
    weight_map = {name: "model-00001-of-00002.safetensors" for name in first}
    weight_map |= {name: "model-00002-of-00002.safetensors" for name in second}
    total = sum(t.nbytes for t in (*first.values(), *second.values()))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def main():
    small_gguf(HERE / "small.gguf")
    small_gguf(HERE / "aligned64.gguf", alignment=64)
    save_file(
        {
            "f32": (np.arange(6, dtype=np.float32) - 2.5).reshape(2, 3),
            "f16": (np.arange(4, dtype=np.float16) / 4),
            "i64": np.array([2**40, -1], dtype=np.int64),
            "u8": np.array([[1], [2], [255]], dtype=np.uint8),
            "bool": np.array([True, False]),
            "scalar": np.array(1.5, dtype=np.float32),
            "empty": np.zeros((0, 4), dtype=np.float32),
        },
        HERE / "small.safetensors",
        metadata={"format": "pt"},
    )
    shards(HERE / "shards")


if __name__ == "__main__":
    main()
