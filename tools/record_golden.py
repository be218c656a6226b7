"""Records golden data: calls cuDNN directly for each case of testing/references/golden_cases.py.

    python tools/record_golden.py cudnn.zip

Requires an NVIDIA GPU, NumPy, and PyTorch with CUDA and cuDNN 9, but not TensorFlow. tests/test_golden.py compares the
recordings with the documented layout of params, the float64 reference and the CPU kernels.
"""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Iterator
from ctypes import byref, c_double, c_int, c_size_t, c_void_p

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testing"))

import cudnn_library
from references import golden_cases

_MODES = {
    "rnn_relu": cudnn_library.CUDNN_RNN_RELU,
    "rnn_tanh": cudnn_library.CUDNN_RNN_TANH,
    "lstm": cudnn_library.CUDNN_LSTM,
    "gru": cudnn_library.CUDNN_GRU,
}
_DIRECTIONS = {
    "unidirectional": cudnn_library.CUDNN_UNIDIRECTIONAL,
    "bidirectional": cudnn_library.CUDNN_BIDIRECTIONAL,
}
# dtype: (data type, compute type, math type). Never TF32, which rounds to 10 bits.
_PRECISIONS = {
    "float32": (cudnn_library.CUDNN_DATA_FLOAT, cudnn_library.CUDNN_DATA_FLOAT, cudnn_library.CUDNN_FMA_MATH),
    "float64": (cudnn_library.CUDNN_DATA_DOUBLE, cudnn_library.CUDNN_DATA_DOUBLE, cudnn_library.CUDNN_DEFAULT_MATH),
    "float16": (cudnn_library.CUDNN_DATA_HALF, cudnn_library.CUDNN_DATA_FLOAT, cudnn_library.CUDNN_TENSOR_OP_MATH),
    "bfloat16": (cudnn_library.CUDNN_DATA_BFLOAT16, cudnn_library.CUDNN_DATA_FLOAT, cudnn_library.CUDNN_TENSOR_OP_MATH),
}
_LAYOUTS = {
    golden_cases.SEQUENCE_MAJOR: cudnn_library.CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
    golden_cases.BATCH_MAJOR: cudnn_library.CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
}
# Arrays that cuDNN's batch-major layout affects. States are the same in both layouts.
_SEQUENCES = ("input", "output", "output_backprop", "input_backprop")
_PROJECTION_ID = 8  # cuDNN's matrix number of the projection in a pseudo-layer


def _empty(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Returns uninitialized memory on the GPU."""
    return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")


def _upload(array: np.ndarray, dtype: str) -> torch.Tensor:
    """Copies an array in the storage format of golden_cases to the GPU."""
    is_bfloat16 = dtype == "bfloat16" and array.dtype == np.uint16
    tensor = torch.from_numpy((array.view(np.int16) if is_bfloat16 else array).copy())
    return _empty(array.shape, dtype).copy_(tensor.view(torch.bfloat16) if is_bfloat16 else tensor)


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Copies a tensor to an array in the storage format of golden_cases."""
    tensor = tensor.cpu()
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


class CudnnNetwork:
    """The network of a case, for use in a `with` statement.

    Attributes:
      params_size: the number of elements of its params buffer.
    """

    def __init__(self, cudnn: cudnn_library.Cudnn, case: golden_cases.Case):
        self._cudnn = cudnn
        self._case = case
        self._config = case.config
        self._data_type, self._compute_type, self._math_type = _PRECISIONS[case.dtype]

    def __enter__(self):
        with contextlib.ExitStack() as resources:
            self._handle = resources.enter_context(self._cudnn.created(""))
            self._cudnn.call("cudnnSetStream", self._handle, torch.cuda.current_stream().cuda_stream)
            self._network = resources.enter_context(self._cudnn.created("RNNDescriptor"))
            self._describe_network()
            self.params_size = self._find_params_size()
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *exception):
        self._resources.close()

    def regions(self) -> dict[str, np.ndarray]:
        """Returns the regions of all matrices and biases according to cuDNN (golden_cases.REGIONS)."""
        params = _empty((self.params_size,), self._case.dtype)
        gate_ids = list(range(2 * self._config.num_gates))
        projection_ids = [_PROJECTION_ID] if self._config.has_projection else []
        matrices, biases = [], []
        for pseudo_layer in range(self._config.num_pseudo_layers):
            of_gates = [self._matrix_and_bias(params, pseudo_layer, each) for each in gate_ids]
            of_projection = [self._matrix_and_bias(params, pseudo_layer, each) for each in projection_ids]
            matrices.append([matrix for matrix, _ in of_gates + of_projection])
            biases.append([bias for _, bias in of_gates])
        return {"matrix_regions": np.array(matrices), "bias_regions": np.array(biases)}

    def run(self, given: dict[str, np.ndarray], variant: golden_cases.Variant) -> dict[str, np.ndarray]:
        """Runs the network forward and backward.

        Args:
          given: the arrays of golden_cases.GIVEN that the case has.
          variant: how to call cuDNN.

        Returns:
          The arrays of golden_cases.OUTPUTS and BACKPROPS that the case has.

        Raises:
          CudnnError: if a cuDNN call fails.
        """
        in_layout = given
        if variant.layout == golden_cases.BATCH_MAJOR:
            in_layout = {name: _swapped(name, array) for name, array in given.items()}
        shapes = golden_cases.shapes(self._case, self.params_size)
        names = [name for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS if name in shapes]
        # Zeros: cuDNN adds to params_backprop, and may not write gradients past the end of a sequence.
        tensors = {name: _empty(shapes[name], self._case.dtype).zero_() for name in names}
        if variant.layout == golden_cases.BATCH_MAJOR:
            tensors = {name: _swapped_shape(name, tensor) for name, tensor in tensors.items()}
        tensors |= {
            name: _upload(array, self._case.dtype) for name, array in in_layout.items() if name != "sequence_lengths"
        }
        with self._data_descriptors(variant.layout) as descriptors:
            self._run(tensors, self._device_lengths(variant), *descriptors)
            torch.cuda.synchronize()
        results = {name: _to_numpy(tensors[name]) for name in names}
        if variant.layout == golden_cases.BATCH_MAJOR:
            results = {name: _swapped(name, array) for name, array in results.items()}
        return results

    def _device_lengths(self, variant) -> torch.Tensor | None:
        if variant.lengths == golden_cases.NULL_LENGTHS:
            return None
        return _upload(self._config.lengths, "int32")

    def _describe_network(self):
        config = self._config
        self._cudnn.call(
            "cudnnSetRNNDescriptor_v8",
            self._network,
            cudnn_library.CUDNN_RNN_ALGO_STANDARD,
            _MODES[config.rnn_mode],
            cudnn_library.CUDNN_RNN_DOUBLE_BIAS,
            _DIRECTIONS[config.direction],
            cudnn_library.CUDNN_SKIP_INPUT if config.skips_input else cudnn_library.CUDNN_LINEAR_INPUT,
            self._data_type,
            self._compute_type,
            self._math_type,
            config.input_size,
            config.num_units,
            config.output_size,  # equal to num_units: no projection
            config.num_layers,
            None,  # no dropout
            cudnn_library.CUDNN_RNN_PADDED_IO_ENABLED,
        )

    def _find_params_size(self) -> int:
        num_bytes = c_size_t()
        self._cudnn.call("cudnnGetRNNWeightSpaceSize", self._handle, self._network, byref(num_bytes))
        return num_bytes.value // golden_cases.stored_dtype("params", self._case).itemsize

    def _matrix_and_bias(self, params, pseudo_layer, number):
        """Returns (offset, rows, columns) of a matrix and of its bias, or NO_REGION if it does not exist."""
        with self._cudnn.created("TensorDescriptor") as matrix, self._cudnn.created("TensorDescriptor") as bias:
            matrix_address, bias_address = c_void_p(), c_void_p()
            self._cudnn.call(
                "cudnnGetRNNWeightParams",
                self._handle,
                self._network,
                pseudo_layer,
                params.nbytes,
                params.data_ptr(),
                number,
                *(matrix, byref(matrix_address)),
                *(bias, byref(bias_address)),
            )
            return self._region(params, matrix, matrix_address), self._region(params, bias, bias_address)

    def _region(self, params, descriptor, address):
        if address.value is None:
            return golden_cases.NO_REGION
        data_type, num_dims, dims, strides = c_int(), c_int(), (c_int * 3)(), (c_int * 3)()
        self._cudnn.call("cudnnGetTensorNdDescriptor", descriptor, 3, byref(data_type), byref(num_dims), dims, strides)
        if num_dims.value == 0:
            return golden_cases.NO_REGION
        if num_dims.value != 3 or dims[0] != 1:
            raise cudnn_library.CudnnError(f"cudnnGetRNNWeightParams: {num_dims.value} dimensions, {list(dims)}")
        return (address.value - params.data_ptr()) // params.element_size(), dims[1], dims[2]

    @contextlib.contextmanager
    def _data_descriptors(self, layout: str) -> Iterator[tuple[c_void_p, c_void_p, c_void_p, c_void_p | None]]:
        """Yields the descriptors of input, output, hidden state and cell state (None if not LSTM)."""
        config = self._config
        with contextlib.ExitStack() as resources:
            x, y = (resources.enter_context(self._cudnn.created("RNNDataDescriptor")) for _ in range(2))
            h, c = (resources.enter_context(self._cudnn.created("TensorDescriptor")) for _ in range(2))
            self._describe_sequences(x, layout, config.input_size)
            self._describe_sequences(y, layout, config.num_directions * config.output_size)
            self._describe_state(h, config.output_size)
            self._describe_state(c, config.num_units)
            yield x, y, h, c if self._case.has_cell_state else None

    def _describe_sequences(self, descriptor, layout, size):
        """Describes an array [time, batch, size] or [batch, time, size] with zero padding."""
        zero = c_double(0)  # the same bits in every type
        self._cudnn.call(
            "cudnnSetRNNDataDescriptor",
            descriptor,
            self._data_type,
            _LAYOUTS[layout],
            self._config.time,
            self._config.batch,
            size,
            (c_int * self._config.batch)(*self._config.lengths),
            byref(zero),
        )

    def _describe_state(self, descriptor, size):
        """Describes an array [pseudo-layers, batch, size]."""
        dims = (c_int * 3)(self._config.num_pseudo_layers, self._config.batch, size)
        strides = (c_int * 3)(self._config.batch * size, size, 1)
        self._cudnn.call("cudnnSetTensorNdDescriptor", descriptor, self._data_type, 3, dims, strides)

    def _make_workspaces(self, x) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the workspace and the reserve space."""
        sizes = c_size_t(), c_size_t()
        mode = cudnn_library.CUDNN_FWD_MODE_TRAINING
        self._cudnn.call("cudnnGetRNNTempSpaceSizes", self._handle, self._network, mode, x, *map(byref, sizes))
        workspace, reserve_space = (_empty((size.value,), "uint8") for size in sizes)
        return workspace, reserve_space

    def _run(self, tensors, device_lengths, x, y, h, c):
        """Runs the network forward and backward and writes the results to `tensors`.

        Args:
          tensors: GIVEN, OUTPUTS and BACKPROPS of the case, by name.
          device_lengths: lengths on the GPU, or None.
          x: descriptor of the input.
          y: descriptor of the output.
          h: descriptor of the hidden states.
          c: descriptor of the cell states, or None if not LSTM.
        """

        def address(name):
            return tensors[name].data_ptr() if name in tensors else None

        lengths = None if device_lengths is None else device_lengths.data_ptr()
        workspace, reserve_space = self._make_workspaces(x)
        num_bytes = tensors["params"].nbytes
        scratch = (workspace.nbytes, workspace.data_ptr(), reserve_space.nbytes, reserve_space.data_ptr())
        self._cudnn.call(
            "cudnnRNNForward",
            self._handle,
            self._network,
            cudnn_library.CUDNN_FWD_MODE_TRAINING,
            lengths,
            *(x, address("input")),
            *(y, address("output")),
            *(h, address("input_h"), address("output_h")),
            *(c, address("input_c"), address("output_c")),
            *(num_bytes, address("params")),
            *scratch,
        )
        self._cudnn.call(
            "cudnnRNNBackwardData_v8",
            self._handle,
            self._network,
            lengths,
            *(y, address("output"), address("output_backprop")),
            *(x, address("input_backprop")),
            *(h, address("input_h"), address("output_h_backprop"), address("input_h_backprop")),
            *(c, address("input_c"), address("output_c_backprop"), address("input_c_backprop")),
            *(num_bytes, address("params")),
            *scratch,
        )
        self._cudnn.call(
            "cudnnRNNBackwardWeights_v8",
            self._handle,
            self._network,
            cudnn_library.CUDNN_WGRAD_MODE_ADD,
            lengths,
            *(x, address("input")),
            *(h, address("input_h")),
            *(y, address("output")),
            *(num_bytes, address("params_backprop")),
            *scratch,
        )


def _swapped(name: str, array: np.ndarray) -> np.ndarray:
    """Swaps time and batch of an array of sequences; returns other arrays unchanged."""
    return np.ascontiguousarray(array.swapaxes(0, 1)) if name in _SEQUENCES else array


def _swapped_shape(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Reshapes a tensor to the shape that `_swapped` returns, without moving data."""
    if name not in _SEQUENCES:
        return tensor
    time, batch, size = tensor.shape
    return tensor.reshape(batch, time, size)


def record(
    cudnn: cudnn_library.Cudnn, case: golden_cases.Case, recorded_with: dict[str, str]
) -> golden_cases.Recording:
    """Returns the results of a case in every variant. Variants that cuDNN rejects are listed as refused."""
    results, refused = {}, {}
    with CudnnNetwork(cudnn, case) as network:
        given = golden_cases.make_given(case, network.params_size)
        for name, variant in golden_cases.VARIANTS.items():
            try:
                results[name] = network.run(given, variant)
            except cudnn_library.CudnnError as error:
                refused[name] = str(error)
        return golden_cases.Recording(case, {**given, **network.regions()}, results, refused, recorded_with)


def main() -> None:
    """Records all cases, and prints what cuDNN refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=pathlib.Path, help="the file to write")
    archive = parser.parse_args().archive
    if archive.exists():
        parser.error(f"{archive} exists already")
    torch.zeros(1, device="cuda")  # makes the GPU's context current and loads CUDA's libraries
    cudnn = cudnn_library.Cudnn()
    properties = torch.cuda.get_device_properties(0)
    recorded_with = {
        "library": "cuDNN",
        "cudnn": cudnn.version,
        "gpu": properties.name,
        "pytorch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "compute_capability": f"{properties.major}.{properties.minor}",
    }
    num_recorded = 0
    for name, case in golden_cases.CASES.items():
        recording = record(cudnn, case, recorded_with)
        if recording.results:
            golden_cases.save(archive, recording)
            num_recorded += 1
        for variant, message in recording.refused.items():
            print(f"{name}, {variant}: {message}")
    print(f"recorded {num_recorded} of {len(golden_cases.CASES)} cases")


if __name__ == "__main__":
    main()
