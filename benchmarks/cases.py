"""What is measured: cases, their sizes, and how many operations they take."""

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
    PENALTY: "penalty's gradient",
    PRODUCT: "product",
    TANH: "tanh",
    MAPPED: "tanh in tf.data",
    FUNCTION: "tf.function",
    SAVED_MODEL: "SavedModel",
    PREDICT: "predict",
    TRAIN_ON_BATCH: "train_on_batch",
    FIT: "fit",
    EMPTY_FUNCTION: "empty tf.function",
    OPS_ALONE: "the ops alone",
}


@dataclasses.dataclass(frozen=True)
class Network:
    """A recurrent network over whole sequences.

    Attributes:
      cell: "lstm", "gru" (which resets the state after the matrix product) or "tanh".
      batch: the number of sequences.
      time: the number of steps of the longest.
      input_size: the size of the input at a step.
      units: the size of the state of each layer and direction.
      layers: the number of layers.
      bidirectional: whether each layer runs in both directions.
      varying: whether the sequences are of different lengths, `lengths`.
      dtype: the type of everything that goes in and comes out.
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
        """The network and its sizes: batch, time, input and units."""
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
        """Whether it is a single float32 layer of one direction over sequences of one length."""
        plain = Network(self.cell, self.batch, self.time, self.input_size, self.units)
        return self == plain

    @property
    def lengths(self) -> list[int]:
        """The number of steps of each sequence: all `time`, or spread from that to a quarter of it, in no order."""
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
        """The size of a layer's output at a step, which is that of the input of the layer above it."""
        return len(self.directions) * self.units

    @property
    def pseudo_layers(self) -> Mapping[str, int]:
        """The size of the input of each direction of each layer, by names such as "layer_0/forward"."""
        return {
            f"layer_{layer}/{direction}": self.output_size if layer else self.input_size
            for layer in range(self.layers)
            for direction in self.directions
        }

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of a task's matrix products; all others are left out.

        Each gate of each step multiplies the input and the state by a matrix: two operations, a multiplication and an
        addition, for each of its units * (input_size + units) elements. The backward pass does as much twice: for the
        gradients of input and state, and for those of the matrices.
        """
        rows = sum(self.lengths) * self.num_gates * self.units
        forward = sum(2 * rows * (fan_in + self.units) for fan_in in self.pseudo_layers.values())
        return {FORWARD: forward, FORWARD_BACKWARD: 3 * forward}[task]


@dataclasses.dataclass(frozen=True)
class PenalizedNetwork(Network):
    """A network in whose training a penalty stands on the gradient of a score with respect to the input.

    The score is half the sum of the output's squares, each times its part of the problem's `output_gradient`, so that
    every pass depends on the one before it. The penalty is the mean over the sequences of (norm - 1)², where norm is
    that of the score's gradient with respect to a sequence.
    """

    tasks: ClassVar[Sequence[str]] = (FORWARD_BACKWARD, PENALTY)
    training_task: ClassVar[str] = PENALTY

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"penalty-{super().name}"

    @property
    def title(self) -> str:
        """The network, its sizes, and that there is a penalty."""
        return f"{super().title}, penalty"

    @property
    def plain(self) -> Network:
        """The same network without a penalty."""
        return Network(**dataclasses.asdict(self))

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of a task's matrix products.

        The gradient of a penalty runs the network forward and backward, then backward through both: to the output's
        gradient, which takes as much as a forward pass, to input, state and weights through the backward pass, four
        times as much, and through the forward pass, twice as much.
        """
        forward = self.plain.flops(FORWARD)
        return 10 * forward if task == PENALTY else self.plain.flops(task)


@dataclasses.dataclass(frozen=True)
class Model:
    """A Keras model as users have it: recurrent layers, of which the last returns its last output, and a Dense layer.

    Attributes:
      network: the recurrent layers. Where lengths vary, an Embedding with a mask is before them, and the inputs are
        tokens, padded with zeros.
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
    """A model that writes text: a call takes a token and the states, and gives the likeliest next token and the states.

    An Embedding is before the recurrent layers, which have one direction and take one step.
    """

    tasks: ClassVar[Sequence[str]] = (FUNCTION, EMPTY_FUNCTION, OPS_ALONE)
    # The characters of TensorFlow's text generation tutorial.
    vocabulary: ClassVar[int] = 66
    outputs: ClassVar[int] = 66

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"decoder-{self.network.name}"

    @property
    def title(self) -> str:
        """The network and its sizes, and that it decodes."""
        return f"decoder, {self.network.title}"

    @property
    def takes_tokens(self) -> bool:
        """Whether an Embedding is before the network."""
        return True


@dataclasses.dataclass(frozen=True)
class MixedModel(Model):
    """A model whose recurrent layers are some of many: from them XLA has little to gain, from the others much.

    A Dense and a LayerNormalization layer are before the recurrent layers; after each but the last are attention of the
    sequence to itself, whose output is added to its input, and a LayerNormalization.
    """

    tasks: ClassVar[Sequence[str]] = (FUNCTION, TRAIN_ON_BATCH)
    heads: ClassVar[int] = 4  # of attention

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        return f"mixed-{self.network.name}"

    @property
    def title(self) -> str:
        """The network and its sizes, and what is around it."""
        return f"Dense, normalization and attention around {self.network.title}"

    @property
    def takes_tokens(self) -> bool:
        """Whether an Embedding is before the network."""
        return False


@dataclasses.dataclass(frozen=True)
class CellSteps:
    """Steps of a `GRUBlockCell`, each an op that starts from the state (backward: its gradient) that another gave.

    Attributes:
      batch: the number of sequences.
      input_size: the size of the input.
      units: the size of the state.
      steps: the number of ops that one call runs.
      dtype: the type of everything that goes in and comes out.
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
        """The cell and its sizes: batch, input and units."""
        dtype = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"GRUBlockCell {self.batch}, {self.input_size}, {self.units}{dtype}"

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of the matrix products of all steps.

        Three gates multiply input and state by a matrix; backward, their gradients are multiplied by its transpose.
        """
        return {
            task: self.steps * 2 * self.batch * 3 * self.units * (self.input_size + self.units) for task in self.tasks
        }[task]


@dataclasses.dataclass(frozen=True)
class Product:
    """The product of two square matrices, which shows what the machine can do.

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
        return f"{self.dtype} product of size {self.size}"

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of the product."""
        return {PRODUCT: 2 * self.size**3}[task]


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """The hyperbolic tangent of each element of a vector: the small op of somebody else.

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
      ValueError: if there is none of that name.
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
        f"a case is named CELL-BATCH-TIME-INPUT-UNITS, with a cell of {', '.join(NUM_GATES)}, and after it, in this "
        f"order, any of -Nlayers, -bidirectional, -varying and -DTYPE, or penalty- and such a name; model- and such a "
        f"name without -DTYPE; mixed- and such a name without -varying and -DTYPE; "
        f"decoder-CELL-BATCH-1-INPUT-UNITS, with -Nlayers; "
        f"gru_block_cell-BATCH-INPUT-UNITS, with any of -Nsteps and -DTYPE; product-SIZE, with -DTYPE; or "
        f"elementwise-SIZE; sizes are at least 1 and dtypes {', '.join(DTYPES)}; {name!r} is not"
    )
