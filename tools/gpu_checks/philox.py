"""Dropout masks, as defined in cc/rnn/simd/network/dropout.h and cc/rnn/random_stream.h."""

from typing import NamedTuple

import cudnn_rnn_reference as reference
import numpy as np

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


class RandomStream(NamedTuple):
    """A position in the random numbers of Philox 4x32-10 (Salmon et al., 2011)."""

    key: int  # 64 bits
    counter: int  # 128 bits


def random_words(stream: RandomStream, first: int, size: int) -> np.ndarray:
    """Returns words first to first + size - 1 of a stream, uint32. Each value of the counter yields four words."""
    places = range(first // 4, (first + size + 3) // 4)
    counters = [(stream.counter + place) % 2**128 for place in places]
    c = [np.array([counter >> 32 * i & 0xFFFFFFFF for counter in counters], np.uint64) for i in range(4)]
    keys = [stream.key & 0xFFFFFFFF, stream.key >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        key0, key1 = map(np.uint64, keys)
        c = [(b >> _SHIFT) ^ c[1] ^ key0, b & _LOW, (a >> _SHIFT) ^ c[3] ^ key1, a & _LOW]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    words = np.stack(c, axis=1).astype(np.uint32).reshape(-1)
    return words[first % 4 :][:size]


def dropout_masks(config: reference.Config, stream: RandomStream) -> list[np.ndarray]:
    """Returns, for each layer above layer 0, the mask of its input: [time, batch, directions * output]."""
    rate = float(np.float32(config.dropout))  # rounded as in the engine
    shape = (config.time, config.batch, config.num_directions * config.output_size)
    size = int(np.prod(shape))
    words_of_layer = (size + 3) // 4 * 4
    masks = []
    for layer in range(1, config.num_layers):
        words = random_words(stream, (layer - 1) * words_of_layer, size)
        kept = words >= int(rate * 2**32)  # empty if the rate is 1
        masks.append(np.where(kept, 1 / (1 - rate) if rate < 1 else 0, 0).reshape(shape))
    return masks
