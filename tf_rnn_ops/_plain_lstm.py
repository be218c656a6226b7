"""TensorFlow's LSTM gradient ops built from TensorFlow's own operations, for gradients of second and higher order.

They are slow. They are used only for derivatives that the ops do not have.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf


class Activations(NamedTuple):
    """The outputs of a step, each [batch, cell_size], or of all steps, each [time, batch, cell_size]."""

    i: tf.Tensor
    cs: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    ci: tf.Tensor
    co: tf.Tensor
    h: tf.Tensor


def _only_states(cs_grad: tf.Tensor, h_grad: tf.Tensor) -> Activations:
    """Returns gradients with respect to all outputs, given those with respect to cs and h."""
    return Activations(*[tf.zeros_like(h_grad)] * 7)._replace(cs=cs_grad, h=h_grad)


class _Cell(NamedTuple):
    """How a cell uses its weights.

    Attributes:
      peepholes: wci, wcf and wco, [cell_size].
      use_peephole: whether the gates use the peepholes.
      new_cell_second: whether the order of the gates is i, ci, f, o, instead of i, f, ci, o.
    """

    peepholes: Sequence[tf.Tensor]
    use_peephole: bool
    new_cell_second: bool

    def backward(self, cs_prev: tf.Tensor, values: Activations, grads: Activations) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the gradients of a step with respect to `cs_prev`, and to [x h_prev] * w + b.

        Args:
          cs_prev: the cell state before the step.
          values: the outputs of the step.
          grads: the gradients with respect to these.
        """
        i, _, f, o, ci, co, _ = values
        wci, wcf, wco = self.peepholes
        d_o = (grads.o + grads.h * co) * o * (1 - o)
        d_cs = grads.cs + (grads.co + grads.h * o) * (1 - co * co)
        if self.use_peephole:
            d_cs += d_o * wco
        d_i = (grads.i + d_cs * ci) * i * (1 - i)
        d_f = (grads.f + d_cs * cs_prev) * f * (1 - f)
        d_ci = (grads.ci + d_cs * i) * (1 - ci * ci)
        d_cs_prev = d_cs * f
        if self.use_peephole:
            d_cs_prev += d_i * wci + d_f * wcf
        gates = [d_i, d_ci, d_f, d_o] if self.new_cell_second else [d_i, d_f, d_ci, d_o]
        return d_cs_prev, tf.concat(gates, axis=-1)

    def peephole_grads(
        self, cs_prev: tf.Tensor, cs: tf.Tensor, d_gates: tf.Tensor, axes: Sequence[int]
    ) -> list[tf.Tensor]:
        """Returns the gradients with respect to the peepholes, [cell_size].

        Args:
          cs_prev: the cell states before each step, [..., cell_size].
          cs: those after it.
          d_gates: the gradients with respect to [x h_prev] * w + b, [..., 4 * cell_size].
          axes: all axes but the last.
        """
        if not self.use_peephole:
            return [tf.zeros_like(each) for each in self.peepholes]
        d_i, second, third, d_o = tf.split(d_gates, 4, axis=-1)
        d_f = third if self.new_cell_second else second
        return [tf.reduce_sum(d * c, axis=axes) for d, c in ((d_i, cs_prev), (d_f, cs_prev), (d_o, cs))]


def step_grads(use_peephole: bool, *inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the results of LSTMBlockCellGrad, given its attribute and inputs."""
    _, cs_prev, _, _, *peepholes, _ = inputs[:8]
    *values, cs_grad, h_grad = inputs[8:]
    outputs = Activations(*[*values, tf.zeros_like(h_grad)])  # the step does not depend on h
    cell = _Cell(peepholes, use_peephole, new_cell_second=True)
    d_cs_prev, d_gates = cell.backward(cs_prev, outputs, _only_states(cs_grad, h_grad))
    return [d_cs_prev, d_gates, *cell.peephole_grads(cs_prev, outputs.cs, d_gates, [0])]


def sequence_grads(
    seq_len_max: tf.Tensor, new_cell_second: bool, use_peephole: bool, *inputs: tf.Tensor
) -> list[tf.Tensor]:
    """Returns the results of BlockLSTMGrad of any version, given its attributes and inputs.

    Args:
      seq_len_max: the number of steps.
      new_cell_second: whether the order of the gates is that of BlockLSTM, instead of BlockLSTMV2.
      use_peephole: as in the op.
      *inputs: the other inputs. The gradients at the end are those of cs and h, or of all outputs.
    """
    x, cs_prev, h_prev, w, *peepholes, _ = inputs[:8]
    cell = _Cell(peepholes, use_peephole, new_cell_second)
    values, last = Activations(*inputs[8:15]), inputs[15:]
    grads = _only_states(*last) if len(last) == 2 else Activations(*last)
    time, batch, input_size = tf.unstack(tf.shape(x), 3)
    cell_size = tf.shape(cs_prev)[1]
    runs = tf.range(time) < tf.cast(seq_len_max, tf.int32)

    def of_steps(tensor: tf.Tensor) -> tf.Tensor:
        # Other steps may hold NaN, which would spread to all gradients.
        return tf.where(runs[:, tf.newaxis, tf.newaxis], tensor, tf.zeros_like(tensor))

    x, values, grads = of_steps(x), Activations(*map(of_steps, values)), Activations(*map(of_steps, grads))
    cs_before = tf.concat([cs_prev[tf.newaxis], values.cs[:-1]], axis=0)[:time]
    h_before = of_steps(tf.concat([h_prev[tf.newaxis], values.h[:-1]], axis=0)[:time])
    # The additional last element defines the shape of a sequence without steps.
    d_gates = tf.TensorArray(x.dtype, size=time + 1, element_shape=[x.shape[1], w.shape[1]])
    d_gates = d_gates.write(time, tf.zeros([batch, 4 * cell_size], x.dtype))

    def step(
        k: tf.Tensor, d_cs: tf.Tensor, d_h: tf.Tensor, d_gates: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.TensorArray]:
        t = time - 1 - k
        of_step = Activations(*(each[t] for each in grads))
        of_step = of_step._replace(cs=of_step.cs + d_cs, h=of_step.h + d_h)
        d_cs, d_bar = cell.backward(cs_before[t], Activations(*(each[t] for each in values)), of_step)
        # The gradients of steps that do not run are zeros.
        d_h = tf.matmul(d_bar, w[input_size:], transpose_b=True)
        for each in (d_cs, d_h):
            each.set_shape(cs_prev.shape)
        return k + 1, d_cs, d_h, d_gates.write(t, d_bar)

    zeros = tf.zeros_like(cs_prev)
    _, d_cs, d_h, d_gates = tf.while_loop(
        lambda k, *_: k < time, step, (0, zeros, zeros, d_gates), maximum_iterations=time
    )
    d_bars = d_gates.stack()[:time]
    rows = tf.reshape(d_bars, [time * batch, 4 * cell_size])
    x_h = tf.reshape(tf.concat([x, h_before], axis=2), [time * batch, input_size + cell_size])
    return [
        tf.reshape(tf.matmul(rows, w[:input_size], transpose_b=True), tf.shape(x)),
        d_cs,
        d_h,
        tf.matmul(x_h, rows, transpose_a=True),
        *cell.peephole_grads(cs_before, values.cs, d_bars, [0, 1]),
        tf.reduce_sum(rows, axis=0),
    ]
