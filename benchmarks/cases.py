"""The cases that are measured: sizes, names and operation counts."""

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

NUM_GATES = {"lstm": 4, "gru": 3, "tanh": 1}
DTYPES = ("bfloat16", "float16", "float32", "float64")

FORWARD = "forward"
FORWARD_BACKWARD = "forward_backward"
BACKWARD = "backward"
PENALTY = "penalty"
PRODUCT = "product"
TANH = "tanh"
MAPPED = "mapped"
FUNCTION = "function"
SAVED_MODEL = "saved_model"
PREDICT = "predict"
TRAIN_ON_BATCH = "train_on_batch"
FIT = "fit"
EMPTY_FUNCTION = "empty_function"
OPS_ALONE = "ops_alone"
TASKS = {
    FORWARD: "forward",
    FORWARD_BACKWARD: "forward + backward",
    BACKWARD: "backward",
    PENALTY: "penalty gradient",
    PRODUCT: "matmul",
    TANH: "tanh",
    MAPPED: "tanh in tf.data",
    FUNCTION: "tf.function",
    SAVED_MODEL: "SavedModel",
    PREDICT: "predict",
    TRAIN_ON_BATCH: "train_on_batch",
    FIT: "fit",
    EMPTY_FUNCTION: "empty tf.function",
    OPS_ALONE: "ops only",
}


@dataclasses.dataclass(frozen=True)
class Network:
    """A recurrent network that processes whole sequences.

    Attributes:
      cell: "lstm", "gru" (reset gate applied after the matrix product) or "tanh".
      batch: the number of sequences.
      time: the number of steps of the longest sequence.
      input_size: the size of the input at a step.
      units: the size of the state of each layer and direction.
      layers: the number of layers.
      bidirectional: whether each layer runs in both directions.
      varying: whether the sequences have different `lengths`.
      dtype: the type of inputs, weights and outputs.
    """

    cell: str
    batch: int
    time: int
    input_size: int
    units: int
    layers: int = 1
    bidirectional: bool = False
    varying: bool = False
    dtype: str = "float32"

    tasks: ClassVar[Sequence[str]] = (FORWARD, FORWARD_BACKWARD)
    training_task: ClassVar[str] = FORWARD_BACKWARD

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        options = {
            f"{self.layers}layers": self.layers > 1,
            "bidirectional": self.bidirectional,
            "varying": self.varying,
            self.dtype: self.dtype != "float32",
        }
        sizes = (self.cell, self.batch, self.time, self.input_size, self.units)
        return "-".join(map(str, [*sizes, *(option for option, is_set in options.items() if is_set)]))

    @property
    def title(self) -> str:
        """The network and its sizes: batch, time, input, units."""
        options = {
            f"{self.layers} layers": self.layers > 1,
            "bidirectional": self.bidirectional,
            f"lengths {min(self.lengths)} to {max(self.lengths)}": self.varying,
            self.dtype: self.dtype != "float32",
        }
        kind = {"lstm": "LSTM", "gru": "GRU", "tanh": "tanh RNN"}[self.cell]
        sizes = f"{kind} {self.batch}, {self.time}, {self.input_size}, {self.units}"
        return ", ".join([sizes, *(option for option, is_set in options.items() if is_set)])

    @property
    def is_plain(self) -> bool:
        """Whether it is a single unidirectional float32 layer and all sequences have the same length."""
        plain = Network(self.cell, self.batch, self.time, self.input_size, self.units)
        return self == plain

    @property
    def lengths(self) -> list[int]:
        """The number of steps of each sequence: `time`, or `time` down to a quarter of it in random order."""
        if not self.varying:
            return [self.time] * self.batch
        shortest = -(-self.time // 4)
        lengths = [self.time - (self.time - shortest) * index // max(1, self.batch - 1) for index in range(self.batch)]
        random.Random(self.batch).shuffle(lengths)
        return lengths

    @property
    def num_gates(self) -> int:
        """The number of gates of the cell."""
        return NUM_GATES[self.cell]

    @property
    def directions(self) -> Sequence[str]:
        """The directions of each layer."""
        return ("forward", "backward") if self.bidirectional else ("forward",)

    @property
    def output_size(self) -> int:
        """The size of a layer's output at a step, which is the input size of the layer above."""
        return len(self.directions) * self.units

    @property
    def pseudo_layers(self) -> Mapping[str, int]:
        """The input size of each pseudo-layer, by names such as "layer_0/forward"."""
        return {
            f"layer_{layer}/{direction}": self.output_size if layer else self.input_size
            for layer in range(self.layers)
            for direction in self.directions
        }

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of a task's matrix products; all others are ignored.

        Each gate of each step multiplies the input and the state by a matrix: two operations for each of its
        units * (input_size + units) elements. The backward pass takes twice as many: for the gradients of input and
        state, and for the gradients of the matrices.
        """
        rows = sum(self.lengths) * self.num_gates * self.units
        forward = sum(2 * rows * (fan_in + self.units) for fan_in in self.pseudo_layers.values())
        return {FORWARD: forward, FORWARD_BACKWARD: 3 * forward}[task]


@dataclasses.dataclass(frozen=True)
class PenalizedNetwork(Network):
    """A network that is trained with a penalty on the gradient of a score with respect to the input.

    The score is sum(output_gradient * output²) / 2, with the problem's `output_gradient`; thus every pass depends on
    the previous one. The penalty is the mean over the sequences of (norm - 1)², where norm is the norm of the score's
    gradient with respect to a sequence.
    """

    tasks: ClassVar[Sequence[str]] = (FORWARD_BACKWARD, PENALTY)
    training_task: ClassVar[str] = PENALTY

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"penalty-{super().name}"

    @property
    def title(self) -> str:
        """The network and its sizes, followed by "penalty"."""
        return f"{super().title}, penalty"

    @property
    def plain(self) -> Network:
        """The same network without a penalty."""
        return Network(**dataclasses.asdict(self))

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of a task's matrix products.

        The penalty gradient runs the network forward (1) and backward (2), then differentiates both: the backward
        pass with respect to the output's gradient (1) and to input, state and weights (4), and the forward pass (2).
        The numbers are multiples of a forward pass.
        """
        forward = self.plain.flops(FORWARD)
        return 10 * forward if task == PENALTY else self.plain.flops(task)


@dataclasses.dataclass(frozen=True)
class Model:
    """A typical Keras model: recurrent layers, the last of which returns its last output, and a Dense layer.

    Attributes:
      network: the recurrent layers. If lengths vary, an Embedding with a mask precedes them, and the inputs are tokens,
        padded with zeros.
    """

    network: Network

    tasks: ClassVar[Sequence[str]] = (
        FUNCTION,
        SAVED_MODEL,
        PREDICT,
        TRAIN_ON_BATCH,
        FIT,
        EMPTY_FUNCTION,
        OPS_ALONE,
    )
    dtype: ClassVar[str] = "float32"
    vocabulary: ClassVar[int] = 1000  # the number of tokens, if there is an Embedding
    outputs: ClassVar[int] = 1  # the units of the Dense layer
    batches: ClassVar[int] = 8  # of a call of `predict` and `fit`
    repeats: ClassVar[int] = 10  # of the recurrent layers in OPS_ALONE

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"model-{self.network.name}"

    @property
    def title(self) -> str:
        """The network and its sizes, and whether an Embedding is before it."""
        return f"{'Embedding, ' if self.takes_tokens else ''}{self.network.title}"

    @property
    def takes_tokens(self) -> bool:
        """Whether an Embedding is before the network."""
        return self.network.varying

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of the recurrent layers' matrix products."""
        forward = self.network.flops(FORWARD)
        return {
            FUNCTION: forward,
            SAVED_MODEL: forward,
            PREDICT: self.batches * forward,
            TRAIN_ON_BATCH: 3 * forward,
            FIT: 3 * self.batches * forward,
            EMPTY_FUNCTION: 0,
            OPS_ALONE: self.repeats * forward,
        }[task]


@dataclasses.dataclass(frozen=True)
class Decoder(Model):
    """A model that generates text: a call maps a token and the states to the most likely next token and new states.

    An Embedding precedes the recurrent layers, which are unidirectional and take one step.
    """

    tasks: ClassVar[Sequence[str]] = (FUNCTION, EMPTY_FUNCTION, OPS_ALONE)
    # As in TensorFlow's text generation tutorial.
    vocabulary: ClassVar[int] = 66
    outputs: ClassVar[int] = 66

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"decoder-{self.network.name}"

    @property
    def title(self) -> str:
        """The word "decoder", the network and its sizes."""
        return f"decoder, {self.network.title}"

    @property
    def takes_tokens(self) -> bool:
        """Whether an Embedding is before the network."""
        return True


@dataclasses.dataclass(frozen=True)
class MixedModel(Model):
    """A model with other layers around the recurrent ones; XLA speeds up mainly the other layers.

    Dense and LayerNormalization precede the recurrent layers. Self-attention with a residual connection and
    LayerNormalization follow each recurrent layer except the last.
    """

    tasks: ClassVar[Sequence[str]] = (FUNCTION, TRAIN_ON_BATCH)
    heads: ClassVar[int] = 4  # attention heads

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"mixed-{self.network.name}"

    @property
    def title(self) -> str:
        """The kinds of layers, the network and its sizes."""
        return f"Dense, normalization, attention, {self.network.title}"

    @property
    def takes_tokens(self) -> bool:
        """Whether an Embedding is before the network."""
        return False


@dataclasses.dataclass(frozen=True)
class CellSteps:
    """Steps of a `GRUBlockCell`: each op takes the state (backward: its gradient) that the previous op returned.

    Attributes:
      batch: the number of sequences.
      input_size: the size of the input.
      units: the size of the state.
      steps: the number of ops in one call.
      dtype: the type of inputs, weights and outputs.
    """

    batch: int
    input_size: int
    units: int
    steps: int = 50
    dtype: str = "float32"

    tasks: ClassVar[Sequence[str]] = (FORWARD, BACKWARD)

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        dtype = "" if self.dtype == "float32" else f"-{self.dtype}"
        return f"gru_block_cell-{self.batch}-{self.input_size}-{self.units}-{self.steps}steps{dtype}"

    @property
    def title(self) -> str:
        """The cell and its sizes: batch, input, units."""
        dtype = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"GRUBlockCell {self.batch}, {self.input_size}, {self.units}{dtype}"

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of the matrix products of all steps.

        Three gates multiply input and state by a matrix; the backward op multiplies their gradients by its transpose.
        """
        return {
            task: self.steps * 2 * self.batch * 3 * self.units * (self.input_size + self.units) for task in self.tasks
        }[task]


@dataclasses.dataclass(frozen=True)
class Product:
    """The product of two square matrices, which shows the speed limit of the machine.

    Attributes:
      size: the number of rows and columns.
      dtype: the type of the factors and the product.
    """

    size: int
    dtype: str = "float32"

    tasks: ClassVar[Sequence[str]] = (PRODUCT,)

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"product-{self.size}-{self.dtype}"

    @property
    def title(self) -> str:
        """The dtype and the size."""
        return f"{self.dtype} matmul of size {self.size}"

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of the product."""
        return {PRODUCT: 2 * self.size**3}[task]


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """The hyperbolic tangent of each element of a vector: a small op of another thread.

    Attributes:
      size: the number of elements.
    """

    size: int

    tasks: ClassVar[Sequence[str]] = (TANH, MAPPED)
    dtype: ClassVar[str] = "float32"

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"elementwise-{self.size}"

    @property
    def title(self) -> str:
        """The function and the size."""
        return f"tanh of {self.size} elements"

    def flops(self, task: str) -> int:
        """Returns the number of elements."""
        return {task: self.size for task in self.tasks}[task]


Case = Network | Model | CellSteps | Product | Elementwise

_SIZE = "[1-9][0-9]*"
_DTYPE = f"(?P<dtype>{'|'.join(DTYPES)})"
_CELL = f"(?P<cell>{'|'.join(NUM_GATES)})-(?P<batch>{_SIZE})"
_INPUT_UNITS_LAYERS = f"(?P<input_size>{_SIZE})-(?P<units>{_SIZE})(-(?P<layers>{_SIZE})layers)?"
_FLOAT32_NETWORK = (
    f"{_CELL}-(?P<time>{_SIZE})-{_INPUT_UNITS_LAYERS}(?P<bidirectional>-bidirectional)?(?P<varying>-varying)?"
)
_NETWORK = f"{_FLOAT32_NETWORK}(-{_DTYPE})?"
_PATTERNS: dict[type[Case], str] = {
    Network: _NETWORK,
    PenalizedNetwork: f"penalty-{_NETWORK}",
    Model: f"model-{_FLOAT32_NETWORK}",
    MixedModel: f"mixed-{_CELL}-(?P<time>{_SIZE})-{_INPUT_UNITS_LAYERS}(?P<bidirectional>-bidirectional)?",
    Decoder: f"decoder-{_CELL}-(?P<time>1)-{_INPUT_UNITS_LAYERS}",
    CellSteps: f"gru_block_cell-(?P<batch>{_SIZE})-(?P<input_size>{_SIZE})-(?P<units>{_SIZE})"
    f"(-(?P<steps>{_SIZE})steps)?(-{_DTYPE})?",
    Product: f"product-(?P<size>{_SIZE})(-{_DTYPE})?",
    Elementwise: f"elementwise-(?P<size>{_SIZE})",
}
_TEXTS = ("cell", "dtype")
_FLAGS = ("bidirectional", "varying")


def parse_case(name: str) -> Case:
    """Returns the case of a name such as "lstm-32-100-128-256", "gru-1-10-8-8-bfloat16" or "gru_block_cell-1-8-16".

    Raises:
      ValueError: if the name is not valid.
    """
    for kind, pattern in _PATTERNS.items():
        if match := re.fullmatch(pattern, name):
            found = {key: value for key, value in match.groupdict().items() if value}
            fields: dict[str, Any] = {
                key: value if key in _TEXTS else True if key in _FLAGS else int(value) for key, value in found.items()
            }
            if issubclass(kind, Model):
                return kind(Network(**fields))
            return kind(**fields)
    raise ValueError(
        f"{name!r} is not a valid case; cases are NETWORK[-DTYPE], penalty-NETWORK[-DTYPE], model-NETWORK, "
        "mixed-NETWORK (without -varying), decoder-CELL-BATCH-1-INPUT-UNITS[-Nlayers], "
        "gru_block_cell-BATCH-INPUT-UNITS[-Nsteps][-DTYPE], product-SIZE[-DTYPE] and elementwise-SIZE, where NETWORK "
        "is CELL-BATCH-TIME-INPUT-UNITS[-Nlayers][-bidirectional][-varying], "
        f"CELL is one of {', '.join(NUM_GATES)}, and DTYPE is one of {', '.join(DTYPES)}"
    )
