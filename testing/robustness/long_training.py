"""Compares a training run in float32 with the same run in float64, and measures memory.

The target is the tanh of a matrix times the input from two steps before. The weights are the params of the op, the loss
is the mean squared error of its output, and the updates are gradient descent. Only the ops and the updates round.
"""

import numpy as np
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import gradient_difference, run_backprop, run_forward
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import Config
from inputs.gru_block_cell import cast
from references import cudnn_rnn as reference

DELAY = 2
NUM_BATCHES = 50
NUM_CHECKPOINTS = 10
LEARNING_RATE = 0.25  # small enough that steps do not amplify differences of the weights
MOST_GROWTH = 4 << 20  # of memory since the first checkpoint, in bytes
HALF_AN_ULP = 2.0**-24  # of float32, relative to the number


class Training:
    """A network and its weights in one dtype.

    Args:
      config: the network.
      dtype: the dtype.
    """

    def __init__(self, config: Config, dtype: str):
        self._config = config
        rng = np.random.default_rng(0)
        shapes = cudnn_rnn_inputs.shapes(config)
        # Exact in both dtypes.
        x = rng.standard_normal((NUM_BATCHES, *shapes["input"])).astype(np.float32)
        target = np.zeros((NUM_BATCHES, *shapes["output"]), np.float32)
        matrix = rng.standard_normal((config.input_size, config.num_units)) / np.sqrt(config.input_size)
        target[:, DELAY:] = np.tanh(x[:, :-DELAY] @ matrix)
        states = {name: np.zeros(shapes[name]) for name in ("input_h", "input_c")}
        self._states = {name: tf.constant(value) for name, value in cast(states, dtype).items()}
        self._x, self._target = tf.constant(x.astype(dtype)), tf.constant(target.astype(dtype))
        params = cudnn_rnn_inputs.random_params(config, rng).astype(np.float32)
        self._params = tf.Variable(params.astype(dtype))
        self._step = tf.function(self._train).get_concrete_function(tf.TensorSpec([], tf.int32))

    def params(self) -> np.ndarray:
        return self._params.numpy()

    def step(self, number: int) -> tuple[float, float]:
        """Runs a training step and returns the loss and the largest magnitude of the gradient."""
        loss, largest = self._step(tf.constant(number % NUM_BATCHES))
        return float(loss), float(largest)

    def gradient(self, number: int) -> np.ndarray:
        """Returns the gradient of a step without training."""
        return self._loss_and_gradient(number % NUM_BATCHES)[1].numpy()

    def reference_gradient(self, number: int) -> np.ndarray:
        """Returns the same gradient from the float64 reference."""
        x, target = (parity.to_float64(each[number % NUM_BATCHES]) for each in (self._x, self._target))
        states = {name: parity.to_float64(value) for name, value in self._states.items()}
        params = parity.to_float64(self._params)
        run = reference.forward(self._config, x, **states, params=params)
        d_output = self._output_backprop(run.output, target)
        d_states = [np.zeros_like(each) for each in (run.output_h, run.output_c)]
        return reference.backward(self._config, run, states["input_c"], params, d_output, *d_states).params_backprop

    def _output_backprop(self, output, target):
        return (output - target) * (2 / output.shape.num_elements() if tf.is_tensor(output) else 2 / output.size)

    def _loss_and_gradient(self, batch):
        inputs = {"input": self._x[batch], **self._states, "params": self._params}
        outputs = run_forward(self._config, inputs)
        target = self._target[batch]
        gradients = {
            "output_backprop": self._output_backprop(outputs.output, target),
            "output_h_backprop": tf.zeros_like(outputs.output_h),
            "output_c_backprop": tf.zeros_like(outputs.output_c),
        }
        gradient = run_backprop(self._config, inputs, outputs, gradients).params_backprop
        return tf.reduce_mean((outputs.output - target) ** 2), gradient

    def _train(self, batch):
        loss, gradient = self._loss_and_gradient(batch)
        self._params.assign_sub(LEARNING_RATE * gradient)
        return loss, tf.reduce_max(tf.abs(gradient))


def check(mode: str, num_steps: int) -> str:
    """Trains in both dtypes and returns a summary.

    Raises:
      AssertionError: if gradients, weights or the loss differ by more than rounding, or memory or threads grow.
    """
    config = Config(mode, num_units=32, input_size=8, time=12, batch=16)
    narrow, wide = Training(config, "float32"), Training(config, "float64")
    # The largest difference between the weights of both runs, if no step amplifies the rounding errors of earlier ones.
    bound = 0.0
    losses, usages, errors, distances = [], [], [], []
    interval = num_steps // NUM_CHECKPOINTS
    for first in range(0, NUM_CHECKPOINTS * interval, interval):
        of_steps = []
        for number in range(first, first + interval):
            (loss, largest), (wide_loss, _) = narrow.step(number), wide.step(number)
            bound += LEARNING_RATE * parity.TOLERANCES["float32"] * largest
            of_steps.append((loss, wide_loss))
        bound += interval * HALF_AN_ULP * float(np.abs(wide.params()).max())
        losses.append(np.mean(of_steps, axis=0))
        # Of a gradient from the reference with the same weights, relative to the largest magnitude.
        error, wide_error = (
            gradient_difference(config, "params", each.gradient(number), each.reference_gradient(number))
            for each in (narrow, wide)
        )
        errors.append(error)
        distances.append(np.abs(narrow.params() - wide.params()).max())
        usages.append((process_resources.memory(), process_resources.num_threads()))
        point = f"after step {number}: {losses[-1]=}, {error=}, {wide_error=}, {distances[-1]=}, {bound=}, {usages=}"
        assert error <= parity.TOLERANCES["float32"], point
        assert wide_error <= parity.TOLERANCES["float64"], point
        assert distances[-1] <= bound, point
        assert abs(losses[-1][0] - losses[-1][1]) <= 1e-3 * losses[-1][1], point
        assert usages[-1][0] - usages[0][0] <= MOST_GROWTH, point
        assert usages[-1][1] <= usages[0][1], point
    (first_loss, _), (loss, wide_loss) = losses[0], losses[-1]
    assert loss < first_loss
    return (
        f"{num_steps} steps: loss {first_loss:.4f} to {loss:.7f} (float64: {wide_loss:.7f}); largest gradient "
        f"difference {max(errors):.1e}, tolerance {parity.TOLERANCES['float32']:.0e}; largest weight difference "
        f"{max(distances):.1e}, bound {bound:.1e}; memory {(usages[-1][0] - usages[0][0]) / 2**20:+.1f} MiB"
    )
