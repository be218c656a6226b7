"""Models of Keras, served from a SavedModel by a C program, saved_model_calls.c, and called from Python."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import (
    CONCRETE_FUNCTION,
    COPIES,
    FROZEN,
    FROZEN_WITH_ARRAYS,
    FUNCTION,
    MAKE_CALLABLE,
    MODEL_CALL,
    PREDICT_ON_BATCH,
    SERVE_IN_C,
    SIGNATURE,
    Case,
)
from keras_models import create_layer, to_keras
from library import Task, problem_of, task
from measure import Load
from tensorflow.core.protobuf import saved_model_pb2

PROGRAM = pathlib.Path(__file__).parent.parent / "build/saved-model-calls/saved_model_calls"
NO_OPS = "-"  # stands for the op library if a model contains no op of ours
_SIGNATURE = "serving_default"
_FIRST_OUTPUT = "output_0"


def inputs_of(case: Case, dtype: str = "float32") -> dict[str, np.ndarray]:
    """Returns the inputs by their names in the model."""
    problem = problem_of(case, dtype)
    return {"x": problem.inputs, **{f"state{index}": each for index, each in enumerate(problem.states)}}


def build(case: Case, dtype: str = "float32") -> keras.Model:
    """Returns the model of a served case."""
    inputs = [keras.Input(array.shape[1:], dtype=dtype, name=name) for name, array in inputs_of(case, dtype).items()]
    if not case.takes_states:
        inputs = [keras.Input([None, case.input_size], dtype=dtype, name="x")]
    layer = create_layer(case, dtype, return_state=case.takes_states)
    outputs = layer(inputs[0], initial_state=inputs[1:] or None)
    layer.set_weights(to_keras(case, problem_of(case, dtype).weights))
    return keras.Model(inputs if case.takes_states else inputs[0], outputs)


def expected_output(case: Case) -> np.ndarray:
    """Returns the first output in float64."""
    return _first_output(build(case, "float64")(_argument(inputs_of(case, "float64"))))["output"]


class ProgramInC:
    """The C program with a SavedModel.

    Args:
      folder: the SavedModel.
      shapes: the shapes of its inputs by name. All are floats.
      output: the name of its output.
      threads: the number of threads.
      op_library: the path of the op library that the program loads, or `NO_OPS`.
      environment: further environment variables.
    """

    def __init__(
        self,
        folder: str,
        shapes: Mapping[str, Sequence[int]],
        output: str,
        threads: int,
        op_library: str,
        environment: Mapping[str, str] | None = None,
    ):
        self._folder, self._threads, self._op_library = folder, threads, op_library
        self._environment = os.environ | (environment or {})
        saved = saved_model_pb2.SavedModel()
        saved.ParseFromString(pathlib.Path(folder, "saved_model.pb").read_bytes())
        signature = saved.meta_graphs[0].signature_def[_SIGNATURE]
        inputs = [
            f"{signature.inputs[name].name.removesuffix(':0')}={','.join(map(str, shape))}"
            for name, shape in shapes.items()
        ]
        self._names = [signature.outputs[output].name, *inputs]

    def run(self, clients: int = 1, seconds: float = 0.0, copies: int = 1) -> dict[str, Any]:
        """Runs the C program and returns what it prints.

        Raises:
          RuntimeError: if it fails.
        """
        sizes = map(str, (clients, seconds, copies, self._threads))
        command = [str(PROGRAM), self._op_library, self._folder, *sizes, *self._names]
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=self._environment)
        if process.returncode != 0:
            raise RuntimeError(f"{PROGRAM.name} ended with {process.returncode}:\n{process.stderr[-2000:]}")
        return json.loads(process.stdout)

    def task(self, shape: Sequence[int]) -> Task:
        """Returns the task of a request, with an output of a shape."""
        return Task(self.run, lambda: {"output": np.reshape(self.run()["output"], shape)}, self._sample)

    def _sample(self, load: Load) -> tuple[float, Sequence[float]]:
        report = self.run(load.clients, load.seconds)
        return report["seconds"] / report["requests"], report["waits"]


class ServedProgram:
    """A model that is saved, accelerated if Keras currently is, served and called.

    Attributes:
      folder: the SavedModel, which is removed with this object.
      tasks: its program.

    Args:
      case: the model.
      threads: the number of threads of the C program.
      op_library: the path of the op library that the C program loads, or `NO_OPS`.
      freeze: makes a function whose weights are packed once, as those of the SavedModel are; None if these are not.
    """

    def __init__(self, case: Case, threads: int, op_library: str = NO_OPS, freeze: Callable | None = None):
        self.folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, self.folder)
        model = build(case)
        model.export(self.folder, verbose=False)
        self._loaded = tf.saved_model.load(self.folder)
        self._arrays = inputs_of(case)
        shapes = {name: array.shape for name, array in self._arrays.items()}
        self.in_c = ProgramInC(self.folder, shapes, _FIRST_OUTPUT, threads, op_library)
        in_c = self.in_c.task([case.batch, case.units])
        memory = {name: functools.partial(self._sample_memory, count) for count, name in COPIES.items()}
        calls = {
            **self._calls_of_saved_model(),
            **(self._calls_of_frozen(freeze(model)) if freeze else self._calls(model)),
        }
        self.tasks: dict[str, Task] = {
            SERVE_IN_C: in_c,
            **{name: task(call, _first_output) for name, call in calls.items()},
            **{name: in_c._replace(sample=sample) for name, sample in memory.items()},
        }

    @functools.cached_property
    def _tensors(self) -> dict[str, tf.Tensor]:
        return {name: tf.constant(array) for name, array in self._arrays.items()}

    def _calls_of_saved_model(self) -> dict[str, Callable[[], Any]]:
        with tf.Graph().as_default():
            session = tf.compat.v1.Session()
            signature = tf.compat.v1.saved_model.load(session, ["serve"], self.folder).signature_def[_SIGNATURE]
            feeds = [signature.inputs[name].name for name in self._arrays]
            run = session.make_callable([signature.outputs[name].name for name in sorted(signature.outputs)], feeds)
        return {
            SIGNATURE: functools.partial(self._loaded.signatures[_SIGNATURE], **self._tensors),
            MAKE_CALLABLE: functools.partial(run, *self._arrays.values()),
        }

    def _calls(self, model: keras.Model) -> dict[str, Callable[[], Any]]:
        tensors, arrays = _argument(self._tensors), _argument(self._arrays)
        return {
            MODEL_CALL: functools.partial(model, tensors),
            PREDICT_ON_BATCH: functools.partial(model.predict_on_batch, arrays),
            FUNCTION: functools.partial(tf.function(model), tensors),
        }

    def _calls_of_frozen(self, frozen: Any) -> dict[str, Callable[[], Any]]:
        tensors, arrays = _argument(self._tensors), _argument(self._arrays)
        return {
            CONCRETE_FUNCTION: functools.partial(frozen.concrete_function, tensors),
            FROZEN: functools.partial(frozen, tensors),
            FROZEN_WITH_ARRAYS: functools.partial(frozen, arrays),
        }

    def _sample_memory(self, copies: int, load: Load) -> tuple[float, Sequence[float]]:
        report = self.in_c.run(copies=copies)
        return report["resident_loaded"] - report["resident_before"], ()


def _argument(values: Mapping[str, Any]) -> Any:
    """Returns inputs as a model of Keras takes them."""
    only, *others = values.values()
    return [only, *others] if others else only


def _first_output(outputs: Any) -> dict[str, np.ndarray]:
    """Returns the first output of what a model returned: one tensor or array, or several by name or in a list."""
    if isinstance(outputs, Mapping):
        outputs = outputs[_FIRST_OUTPUT]
    return {"output": np.asarray(outputs[0] if isinstance(outputs, list | tuple) else outputs)}
