"""A small reader and writer of GGUF files, for the tests of `ffwd fit` and `ffwd quantize`."""
import math
import struct

U32, F32, BOOL, STRING, ARRAY, U64 = 4, 6, 7, 8, 9, 10
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
NAMES = {number: name for name, number in TYPES.items()}
BLOCKS = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34), "Q4_K": (256, 144),
          "Q6_K": (256, 210)}


def size(kind, dims):
    block, length = BLOCKS[kind]
    return math.prod(dims) // block * length


def text(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return text(v)
    if kind == ARRAY:
        elem, items = v
        return struct.pack("<IQ", elem, len(items)) + b"".join(value(elem, i) for i in items)
    return struct.pack("<" + FORMATS[kind], v)


def write(path, meta, tensors, align=32):
    """meta: (key, type, value); tensors: (name, dims with the contiguous one first, type, bytes or None: a hole)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    head += b"".join(text(key) + struct.pack("<I", kind) + value(kind, v) for key, kind, v in meta)
    at = 0
    for name, dims, kind, _ in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        head += struct.pack("<IQ", TYPES[kind], at)
        at += -(-size(kind, dims) // align) * align
    start = -(-len(head) // align) * align
    with open(path, "wb") as f:
        f.write(head)
        at = start
        for _, dims, kind, data in tensors:
            if data is not None:
                f.seek(at)
                f.write(data)
            at += -(-size(kind, dims) // align) * align
        f.truncate(at)
    return path


class File:
    """meta: key -> (type, value); tensors: name -> (dims, type, bytes), in the file's order."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        magic, self.version, tensors, keys = self.take("4sIQQ")
        assert magic == b"GGUF", magic
        self.meta, self.tensors, self.offsets = {}, {}, []
        for _ in range(keys):
            key = self.text()
            kind = self.take("I")[0]
            self.meta[key] = (kind, self.value(kind))
        infos = []
        for _ in range(tensors):
            name, n = self.text(), self.take("I")[0]
            infos.append((name, self.take(f"{n}Q"), *self.take("IQ")))
        align = self.meta.get("general.alignment", (U32, 32))[1]
        start = -(-self.at // align) * align
        for name, dims, kind, offset in infos:
            kind = NAMES[kind]
            assert offset % align == 0
            end = start + offset + size(kind, dims)
            assert end <= len(self.data), name
            self.tensors[name] = (dims, kind, self.data[start + offset:end])
            self.offsets.append(offset)

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def text(self):
        n = self.take("Q")[0]
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            elem, n = self.take("IQ")
            return elem, [self.value(elem) for _ in range(n)]
        return self.take(FORMATS[kind])[0]


def llama(layers, width, ffn, heads, kv_heads, vocab, context):
    """Metadata and tensors (name, dims, bytes missing) of a network of this shape, without a tokenizer."""
    meta = [("general.architecture", STRING, "llama"), ("general.name", STRING, "made up")]
    for key, number in (("block_count", layers), ("embedding_length", width), ("feed_forward_length", ffn),
                        ("attention.head_count", heads), ("attention.head_count_kv", kv_heads),
                        ("context_length", context)):
        meta.append(("llama." + key, U32, number))
    meta.append(("llama.attention.layer_norm_rms_epsilon", F32, 1e-5))
    kv = width // heads * kv_heads
    tensors = [("token_embd.weight", (width, vocab)), ("output.weight", (width, vocab)), ("output_norm.weight", (width,))]
    for i in range(layers):
        tensors += [(f"blk.{i}.{name}.weight", dims) for name, dims in (
            ("attn_norm", (width,)), ("ffn_norm", (width,)), ("attn_q", (width, width)), ("attn_k", (width, kv)),
            ("attn_v", (width, kv)), ("attn_output", (width, width)), ("ffn_gate", (width, ffn)),
            ("ffn_up", (width, ffn)), ("ffn_down", (ffn, width)))]
    return meta, tensors
