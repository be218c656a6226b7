"""The cases that are measured: names, sizes, tasks and operation counts."""

import dataclasses
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NUM_GATES = {"lstm": 4, "gru": 3, "tanh": 1}

# The tasks. A program of a library has a call for each task of a case that the library supports.
FORWARD = "forward"  # inference: the outputs of all steps from zero states
FORWARD_BACKWARD = "forward + backward"  # outputs, and gradients with respect to the input and all weights
BACKWARD = "backward"  # GRUBlockCellGrad
PENALTY = "penalty gradient"
PRODUCT = "matmul"
TANH = "tanh"
MAPPED = "tanh in tf.data"  # in a pipeline with its own threads
FUNCTION = "tf.function"  # inference of one batch
SAVED_MODEL = "SavedModel"  # the same function, saved and loaded
PREDICT = "predict"  # several batches
TRAIN_ON_BATCH = "train_on_batch"  # a training step with Adam
FIT = "fit"  # an epoch of several steps
EMPTY_FUNCTION = "empty tf.function"  # returns its first argument
OPS_ALONE = "ops only"  # the ops of the recurrent layers, several times in sequence in one function
MEMORY = "memory"  # bytes that a training step adds to the process
SERVE_IN_C = "SavedModel in C"  # a request to a served or exported model in a C program
CALL_IN_PYTHON = "call in Python"  # a request to a served model, in a library that is not TensorFlow
MODEL_CALL = "model(x)"  # the model of Keras in eager mode
PREDICT_ON_BATCH = "predict_on_batch"
SIGNATURE = "signature"  # of a SavedModel, called by name
MAKE_CALLABLE = "Session.make_callable"  # a session of TensorFlow 1 with a SavedModel
CONCRETE_FUNCTION = "freeze, concrete_function"  # an ordinary function of TensorFlow, as `freeze` makes it
FROZEN = "freeze"  # with tensors
FROZEN_WITH_ARRAYS = "freeze, NumPy arrays"
AS_IS = "SavedModel as it is"  # that plain Keras wrote
ACCELERATED = "accelerate_graphs"  # the same file
CONVERTED = "convert"  # the file that `tf_rnn_ops.convert` made of it
# Bytes that copies of a model add to the C program.
COPIES = {1: "memory of 1 copy", 4: "memory of 4 copies"}

BATCHES = 8  # of a call of `predict` and `fit`
REPEATS = 10  # of the recurrent layers in OPS_ALONE
# Forward passes that have as many operations as a task. A backward pass has two matrix products for each of the forward
# pass. PENALTY runs the network forward (1) and backward (2), then differentiates both: the backward pass with respect
# to the output's gradient (1) and to input, state and weights (4), and the forward pass (2).
_PASSES = {FORWARD_BACKWARD: 3, TRAIN_ON_BATCH: 3, PENALTY: 10, PREDICT: BATCHES, FIT: 3 * BATCHES, OPS_ALONE: REPEATS}


class _Kind(NamedTuple):
    """The parts of a kind's names, in order, and its tasks."""

    sizes: Sequence[str]
    options: Sequence[str]
    tasks: Sequence[str]


class ExportedModel(NamedTuple):
    """A kind of program, whose model plain Keras exports.

    Attributes:
      words: what it is.
      layers: its layers.
    """

    words: str
    layers: str


# Which program may write an exported model.
WRITERS = {"keras_3": "Keras 3", "keras_2": "Keras 2", "tensorflow_1": "TensorFlow 1"}
# `exported_models.py` builds them. If lengths vary, the inputs are tokens, padded with zeros.
EXPORTED_MODELS = {
    "text_classifier": ExportedModel("text classifier", "Embedding with a mask, bidirectional LSTM, Dense"),
    "tagger": ExportedModel("tagger", "Embedding with a mask, bidirectional LSTM of all steps, Dense"),
    "line_reader": ExportedModel("reader of text lines (OCR)", "2 bidirectional LSTMs, Dense"),
    "autoencoder": ExportedModel("autoencoder of sensor data", "LSTM, RepeatVector, LSTM, TimeDistributed Dense"),
    "keyword_spotter": ExportedModel("keyword spotter", "GRU, Dense"),
    "speech_encoder": ExportedModel("speech encoder", "3 LSTMs, Dense"),
    "recommender": ExportedModel("recommender", "Embedding with a mask, GRU, Dense"),
    "policy": ExportedModel("recurrent policy", "Dense, LSTM of few steps, Dense"),
}

# The options of Keras's layers that a model may have, in words.
VARIANTS = {
    "reset_before": "reset_after=False",
    "dropout": "dropout and recurrent dropout",
    "mixed_bfloat16": "mixed_bfloat16",
    "mixed_float16": "mixed_float16",
}
_SEQUENCES = ("batch", "time", "input_size", "units")
_NETWORK_OPTIONS = ("layers", "bidirectional", "varying", "dtype")
_EXPORTED_TASKS = (AS_IS, ACCELERATED, CONVERTED, SERVE_IN_C, FUNCTION, TRAIN_ON_BATCH)
_MODEL_TASKS = (FUNCTION, SAVED_MODEL, PREDICT, TRAIN_ON_BATCH, FIT, EMPTY_FUNCTION, OPS_ALONE)
# Calls of a served model from Python, in libraries other than TensorFlow; of the model of Keras; of its SavedModel; and
# with weights that are packed once.
CALLS_IN_PYTHON = (
    (CALL_IN_PYTHON,),
    (MODEL_CALL, PREDICT_ON_BATCH, FUNCTION),
    (SIGNATURE, MAKE_CALLABLE),
    (CONCRETE_FUNCTION, FROZEN, FROZEN_WITH_ARRAYS),
)
_KINDS = {
    # A recurrent network that processes whole sequences.
    "network": _Kind(_SEQUENCES, _NETWORK_OPTIONS, (FORWARD, FORWARD_BACKWARD)),
    # A network that is trained with a penalty on the gradient of a score with respect to the input. The score is
    # sum(output_gradient * output²) / 2, with the problem's output_gradient; thus every pass depends on the previous
    # one. The penalty is the mean over the sequences of (norm - 1)², where norm is the norm of the score's gradient
    # with respect to a sequence.
    "penalty": _Kind(_SEQUENCES, _NETWORK_OPTIONS, (FORWARD_BACKWARD, PENALTY)),
    # A Keras model: recurrent layers, the last of which returns its last output, and a Dense layer. If lengths vary,
    # an Embedding with a mask is before them, and the inputs are tokens, padded with zeros.
    "model": _Kind(_SEQUENCES, (*_NETWORK_OPTIONS[:3], "variant"), _MODEL_TASKS),
    # A model that generates text: a call maps a token and the states to the most likely next token and new states. The
    # recurrent layers take one step after an Embedding.
    "decoder": _Kind(_SEQUENCES, _NETWORK_OPTIONS[:1], (FUNCTION, EMPTY_FUNCTION, OPS_ALONE)),
    # A Keras model with one recurrent layer, which returns its last output, as a SavedModel. With one step, a decoder,
    # which also takes and returns the states.
    "served": _Kind(_SEQUENCES, (), (SERVE_IN_C, *itertools.chain(*CALLS_IN_PYTHON), *COPIES.values())),
    # A SavedModel, and the model of Keras that wrote it.
    **dict.fromkeys(EXPORTED_MODELS, _Kind(_SEQUENCES, ("varying", "writer"), _EXPORTED_TASKS)),
    # Dense and LayerNormalization before the recurrent layers; self-attention with a residual connection and
    # LayerNormalization after each of them but the last. XLA speeds up mainly these other layers.
    "mixed": _Kind(_SEQUENCES, _NETWORK_OPTIONS[:2], (FUNCTION, TRAIN_ON_BATCH)),
    # Steps of a GRUBlockCell: each op takes the state (backward: its gradient) that the previous op returned.
    "gru_block_cell": _Kind(("batch", "input_size", "units"), ("steps", "dtype"), (FORWARD, BACKWARD)),
    # BlockLSTM over a sequence, and BlockLSTMGrad after it.
    "block_lstm": _Kind(_SEQUENCES, ("dtype",), (FORWARD, FORWARD_BACKWARD)),
    # The product of two square matrices, which shows the speed limit of the machine.
    "product": _Kind(("size",), ("dtype",), (PRODUCT,)),
    # The hyperbolic tangent of each element of a vector: a small op of another thread.
    "elementwise": _Kind(("size",), (), (TANH, MAPPED)),
}
_WITHOUT_CELL = ("block_lstm", *EXPORTED_MODELS)
_WITH_NETWORK = [kind for kind, each in _KINDS.items() if each.sizes == _SEQUENCES and kind not in _WITHOUT_CELL]
MODELS = ("model", "decoder", "mixed")

_SIZE = "[1-9][0-9]*"
_OPTIONS = {
    "layers": f"({_SIZE})layers",
    "steps": f"({_SIZE})steps",
    "bidirectional": "(bidirectional)",
    "varying": "(varying)",
    "variant": f"({'|'.join(VARIANTS)})",
    "writer": "(keras_2|tensorflow_1)",
    "dtype": "(bfloat16|float16|float32|float64)",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
      kind: one of `_KINDS`.
      cell: "lstm", "gru" (reset gate applied after the matrix product, by default) or "tanh"; empty if the kind has no
        network.
      batch: the number of sequences.
      time: the number of steps of the longest sequence.
      input_size: the size of the input at a step.
      units: the size of the state of each layer and direction.
      layers: the number of layers.
      bidirectional: whether each layer runs in both directions.
      varying: whether the sequences have different `lengths`.
      variant: one of `VARIANTS`, of the recurrent layers of a model; empty for none.
      writer: one of `WRITERS`, which wrote an exported model.
      dtype: the type of inputs, weights and outputs.
      steps: the number of ops in a call of a gru_block_cell.
      size: the number of rows and columns of a product; the number of elements of a vector.
    """

    kind: str
    cell: str = ""
    batch: int = 0
    time: int = 0
    input_size: int = 0
    units: int = 0
    layers: int = 1
    bidirectional: bool = False
    varying: bool = False
    variant: str = ""
    writer: str = "keras_3"
    dtype: str = "float32"
    steps: int = 50
    size: int = 0

    @property
    def tasks(self) -> Sequence[str]:
        """The tasks of the kind; of a variant, those that all models have."""
        return _KINDS["mixed" if self.variant else self.kind].tasks

    @property
    def sizes(self) -> list[int]:
        """The sizes in the case's name."""
        return [getattr(self, name) for name in _KINDS[self.kind].sizes]

    def _options(self, texts: Mapping[str, str]) -> list[str]:
        changed = [name for name in _KINDS[self.kind].options if getattr(self, name) != getattr(Case, name)]
        return [texts.get(name, name) for name in changed]

    @property
    def name(self) -> str:
        """The name that `parse_case` takes."""
        words = [self.kind if self.kind != "network" else "", self.cell, *map(str, self.sizes)]
        texts = {"layers": f"{self.layers}layers", "steps": f"{self.steps}steps"}
        texts |= {"variant": self.variant, "writer": self.writer, "dtype": self.dtype}
        return "-".join(filter(None, [*words, *self._options(texts)]))

    @property
    def title(self) -> str:
        """The case in words, with its sizes in the order of the name."""
        if self.kind == "product":
            return f"{self.dtype} matmul of size {self.size}"
        if self.kind == "elementwise":
            return f"tanh of {self.size} elements"
        if self.is_exported:
            options = self._options({"writer": WRITERS[self.writer]})
            return ", ".join(map(str, [EXPORTED_MODELS[self.kind].words, *self.sizes, *options]))
        before = {"mixed": "Dense, normalization, attention, "}.get(self.kind, "decoder, " if self.takes_states else "")
        if self.kind == "model" and self.takes_tokens:
            before = "Embedding, "
        of_ops = {"gru_block_cell": "GRUBlockCell", "block_lstm": "BlockLSTM"}
        cell = of_ops.get(self.kind) or {"lstm": "LSTM", "gru": "GRU", "tanh": "tanh RNN"}[self.cell]
        lengths = f"lengths {min(self.lengths)} to {max(self.lengths)}" if self.varying else ""
        texts = {"layers": f"{self.layers} layers", "varying": lengths, "steps": "", "dtype": self.dtype}
        texts["variant"] = VARIANTS.get(self.variant, "")
        after = [*self._options(texts), "penalty" if self.kind == "penalty" else ""]
        return before + ", ".join(filter(None, [f"{cell} {', '.join(map(str, self.sizes))}", *after]))

    @property
    def result_dtype(self) -> str:
        """The type to which results are rounded."""
        return self.variant.removeprefix("mixed_") if self.variant.startswith("mixed") else self.dtype

    @property
    def has_network(self) -> bool:
        """Whether it is a network, or a penalized one."""
        return self.kind in ("network", "penalty")

    @property
    def is_model(self) -> bool:
        """Whether it is a Keras model."""
        return self.kind in MODELS

    @property
    def is_served(self) -> bool:
        """Whether it is a served model."""
        return self.kind == "served"

    @property
    def is_exported(self) -> bool:
        """Whether it is an exported model."""
        return self.kind in EXPORTED_MODELS

    @property
    def takes_states(self) -> bool:
        """Whether a model takes and returns the states of its layers."""
        return self.kind == "decoder" or (self.is_served and self.time == 1)

    @property
    def num_states(self) -> int:
        """The number of states that a model takes: hidden state, and an LSTM's cell state, of each layer."""
        return self.layers * (2 if self.cell == "lstm" else 1) if self.takes_states else 0

    @property
    def takes_tokens(self) -> bool:
        """Whether a model begins with an Embedding."""
        return self.kind == "decoder" or (self.varying and (self.kind == "model" or self.is_exported))

    @property
    def vocabulary(self) -> int:
        """The number of tokens of the Embedding; a decoder's is that of TensorFlow's text generation tutorial."""
        return 66 if self.kind == "decoder" else 1000

    @property
    def outputs(self) -> int:
        """The units of a model's Dense layer."""
        return self.vocabulary if self.kind == "decoder" else 1

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
        """Returns the floating-point operations of a task's matrix products; others, and exported models, are ignored.

        Each gate of each step multiplies the input and the state by a matrix: two operations for each of its
        units * (input_size + units) elements.
        """
        if self.is_exported or task in (EMPTY_FUNCTION, MEMORY, *COPIES.values()):
            return 0
        if self.kind == "product":
            return 2 * self.size**3
        if self.kind == "elementwise":
            return self.size
        if self.kind == "gru_block_cell":
            return self.steps * 2 * self.batch * 3 * self.units * (self.input_size + self.units)
        if self.kind == "block_lstm":
            forward = 2 * self.batch * self.time * 4 * self.units * (self.input_size + self.units)
            return _PASSES.get(task, 1) * forward
        rows = sum(self.lengths) * self.num_gates * self.units
        forward = sum(2 * rows * (fan_in + self.units) for fan_in in self.pseudo_layers.values())
        return _PASSES.get(task, 1) * forward


def parse_case(name: str) -> Case:
    """Returns the case of a name such as "lstm-32-100-128-256", "gru-1-10-8-8-bfloat16" or "gru_block_cell-1-8-16".

    Raises:
      ValueError: if the name is not valid.
    """
    words = name.split("-")
    kind = words.pop(0) if words[0] in _KINDS else "network"
    parts = _KINDS[kind]
    patterns = {
        **({"cell": f"({'|'.join(NUM_GATES)})"} if kind in _WITH_NETWORK else {}),
        **{size: f"({_SIZE})" for size in parts.sizes},
        **{option: _OPTIONS[option] for option in parts.options},
    }
    fields: dict[str, Any] = {}
    for key, pattern in patterns.items():
        match = re.fullmatch(pattern, words[0]) if words else None
        if match:
            texts = ("cell", "variant", "writer", "dtype")
            fields[key] = match[1] if key in texts else int(match[1]) if match[1].isdecimal() else True
            words.pop(0)
        elif key not in parts.options:
            words.append("")  # not valid
            break
    is_unknown = (fields.get("writer") == "tensorflow_1" and kind != "line_reader") or (
        fields.get("variant") == "reset_before" and fields.get("cell") != "gru"
    )
    if words or is_unknown or (kind == "decoder" and fields["time"] != 1):
        raise ValueError(
            f"{name!r} is not a valid case; cases are NETWORK[-DTYPE], penalty-NETWORK[-DTYPE], "
            "model-NETWORK[-VARIANT], mixed-NETWORK (without -varying), decoder-CELL-BATCH-1-INPUT-UNITS[-Nlayers], "
            "gru_block_cell-BATCH-INPUT-UNITS[-Nsteps][-DTYPE], block_lstm-BATCH-TIME-INPUT-UNITS[-DTYPE], "
            "served-CELL-BATCH-TIME-INPUT-UNITS, EXPORTED-BATCH-TIME-INPUT-UNITS[-varying][-WRITER], "
            "product-SIZE[-DTYPE] and elementwise-SIZE, where "
            "NETWORK is CELL-BATCH-TIME-INPUT-UNITS[-Nlayers][-bidirectional][-varying], "
            f"CELL is one of {', '.join(NUM_GATES)}, EXPORTED is one of {', '.join(EXPORTED_MODELS)}, "
            f"VARIANT is one of {', '.join(VARIANTS)} (reset_before with gru only), "
            "WRITER is keras_2 or, of a line_reader, tensorflow_1, "
            "and DTYPE is bfloat16, float16, float32 or float64"
        )
    return Case(kind, **fields)


def parse_cases(names: str) -> list[Case]:
    """Returns the cases of names that commas or spaces separate, without duplicates."""
    return list(dict.fromkeys(parse_case(name) for name in re.split("[, \n]+", names.strip())))
