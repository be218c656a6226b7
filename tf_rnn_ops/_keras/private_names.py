"""The names of Keras that the package uses although they are not public; see `tf_rnn_ops._private_names`."""

from tf_rnn_ops._private_names import attribute

INNER_LOOP = attribute(
    "keras.layers.RNN",
    "inner_loop",
    "runs the cell over all steps; accelerate_keras replaces it, and the layers override it",
    "accelerate_keras raises a RuntimeError, and LSTM, GRU and SimpleRNN of tf_rnn_ops.layers run Keras's code",
)
CALL = attribute(
    "keras.layers.LSTMCell",
    "call",
    "runs a cell for one step, with arguments that are not documented; accelerate_keras replaces it",
    "accelerate_keras raises a RuntimeError",
)
MAKE_FUNCTION = {
    attribute(
        "keras.Model",
        name,
        "makes a compiled function of a model; accelerate_keras makes them again",
        "accelerate_keras raises a RuntimeError",
    ): name.removeprefix("make_")
    for name in ("make_train_function", "make_test_function", "make_predict_function")
}
FLATTEN_LAYERS = attribute(
    "keras.layers.Layer",
    "_flatten_layers",
    "lists the layers in a layer or model",
    "accelerate_keras raises a RuntimeError, and `explain` shows only the layers that a model itself lists",
)
INPUTS_STRUCT = attribute(
    "keras.src.models.Functional",
    "_inputs_struct",
    "holds the inputs of a model, nested as its caller passes them",
    "`freeze` takes several inputs of a model as a list",
)
COMPILE_METRICS = attribute(
    "keras.Model",
    "_compile_metrics",
    "leads to the metrics of a model, which may call a cell",
    "accelerate_keras makes the functions of all models again",
)
USER_METRICS = attribute(
    "keras.src.trainers.compile_utils.CompileMetrics",
    "_user_metrics",
    "lists the metrics of a model, which may call a cell",
    "accelerate_keras makes the functions of models with metrics again",
)
RESET_MASKS = attribute(
    "keras.layers.RNN",
    "_maybe_reset_dropout_masks",
    "forgets the dropout masks of a call that accelerate_keras(strict=True) rejects",
    "the next call uses them",
)
_WITHOUT_MASKS = "cells with dropout run Keras's code in training"
DROPOUT_MASK = attribute(
    "keras.layers.LSTMCell", "get_dropout_mask", "draws the masks of a cell's inputs", _WITHOUT_MASKS
)
RECURRENT_DROPOUT_MASK = attribute(
    "keras.layers.LSTMCell", "get_recurrent_dropout_mask", "draws the masks of a cell's state", _WITHOUT_MASKS
)
DROPOUT_MASK_COUNT = attribute(
    "keras.layers.LSTMCell",
    "dropout_mask_count",
    "tells whether each gate has its own dropout masks; Keras up to 3.7 lacks it",
    "cells with recurrent dropout run Keras's code in training",
)
IMPLEMENTATION = attribute(
    "keras.layers.LSTMCell",
    "implementation",
    "tells whether each gate has its own dropout masks",
    "cells with dropout run Keras's code in training",
)
AUTOCAST = attribute(
    "keras.Variable",
    "_autocast",
    "tells whether Keras casts a weight to the dtype in which a layer computes",
    "`explain` shows that layers with mixed precision fall back to Keras, although they do not",
)
AUTOCAST_MODULE = "keras.src.backend.common.variables"
AUTOCAST_SCOPE = attribute(
    AUTOCAST_MODULE,
    "AutocastScope",
    "reads a weight in the dtype in which it is stored",
    "with mixed precision, gradients of recurrent weights have 16 bits",
)
KERAS_MASK = attribute(
    "tensorflow.Tensor",
    "_keras_mask",
    "is the mask of the inputs of a CudnnRNN layer where Keras does not pass it",
    "a call with other tensors, such as initial_state, needs the argument `mask`",
)
TRACK_RESOURCES = attribute(
    "keras.export.ExportArchive",
    "_filter_and_track_resources",
    "traces the call of a model that Keras exports",
    "an export counts as a fallback, which is logged or, with strict=True, raises an error",
)

# ---------------------------------------------------------------- Keras 2
_NOT_KERAS_2 = "Keras 2 is not accelerated, which is logged, and `explain` rejects its models"
KERAS_2_LAYERS = "tf_keras.src.layers"
OLD_CELLS = tuple(
    attribute(KERAS_2_LAYERS, name, "is a cell of TensorFlow 1", _NOT_KERAS_2) for name in ("LSTMCellV1", "GRUCellV1")
)
OLD_LAYERS = tuple(
    attribute(KERAS_2_LAYERS, name, "is a layer of TensorFlow 1", _NOT_KERAS_2) for name in ("LSTMV1", "GRUV1")
)
CUDNN_LAYERS = tuple(
    attribute(KERAS_2_LAYERS, name, "is a layer of TensorFlow 1 for GPUs", _NOT_KERAS_2)
    for name in ("CuDNNLSTM", "CuDNNGRU")
)
LOOP = attribute(
    "tf_keras.src.backend", "rnn", "runs a cell over all steps; accelerate_keras replaces it", _NOT_KERAS_2
)
# Each calls the one before it.
LSTM_LOOPS = tuple(
    attribute("tf_keras.src.layers.rnn.lstm", name, "runs an LSTM; accelerate_keras replaces it", _NOT_KERAS_2)
    for name in ("standard_lstm", "lstm_with_backend_selection")
)
GRU_LOOPS = tuple(
    attribute("tf_keras.src.layers.rnn.gru", name, "runs a GRU; accelerate_keras replaces it", _NOT_KERAS_2)
    for name in ("standard_gru", "gru_with_backend_selection")
)
CUDNN_LOOP = attribute(
    "tf_keras.src.layers.CuDNNLSTM", "_process_batch", "runs cuDNN; accelerate_keras replaces it", _NOT_KERAS_2
)
CALL_CONTEXT_MODULE = "tf_keras.src.engine.base_layer_utils"
CALL_CONTEXT = attribute(CALL_CONTEXT_MODULE, "call_context", "tells whether a layer trains", _NOT_KERAS_2)
IS_FUSED = attribute(
    "tf_keras.layers.LSTM",
    "_could_use_gpu_kernel",
    "tells whether Keras ignores the activations of a cell, and drops the inputs of each step differently",
    "layers with dropout, or with activations that were changed, have other results than in Keras",
)
KERAS_2_MASKS, KERAS_2_NEW_MASKS, KERAS_2_RECURRENT_MASKS, KERAS_2_NEW_RECURRENT_MASKS = (
    attribute("tf_keras.layers.LSTMCell", name, "draws the dropout masks of a cell", _WITHOUT_MASKS)
    for name in (
        *("get_dropout_mask_for_cell", "_create_dropout_mask"),
        *("get_recurrent_dropout_mask_for_cell", "_create_recurrent_dropout_mask"),
    )
)
KERAS_2_METRICS = attribute(
    "tf_keras.Model",
    "compiled_metrics",
    "leads to the metrics of a model, which may call a cell",
    "accelerate_keras makes the functions of all models again",
)
KERAS_2_AUTOCAST = attribute(
    "tf_keras.layers.Layer", "_autocast", "tells whether a layer casts its inputs", "all layers count as doing so"
)
KERAS_2_INPUTS = attribute(
    "tf_keras.Model",
    "_nested_inputs",
    "holds the inputs of a model, nested as its caller passes them",
    "`freeze` takes several inputs of a model as a list",
)
CAST_VARIABLE = attribute(
    "tf_keras.src.mixed_precision.autocast_variable.AutoCastVariable",
    "true_dtype",
    "tells whether Keras casts a weight to the dtype in which a layer computes",
    "layers with mixed precision run Keras's code",
)
STORED_VARIABLE = attribute(
    "tf_keras.src.mixed_precision.autocast_variable.AutoCastVariable",
    "_variable",
    "is a weight in the dtype in which it is stored",
    "with mixed precision, gradients of recurrent weights have 16 bits",
)

# The methods that Keras runs when it calls a cell at a step. If a program replaced one, the cell runs Keras's code.
# Those that are missing are ignored.
OF_STEP = (
    "call",
    "_compute_carry_and_output",
    "_compute_carry_and_output_fused",
    "_create_dropout_mask",
    "_create_recurrent_dropout_mask",
    "get_dropout_mask",
    "get_dropout_mask_for_cell",
    "get_recurrent_dropout_mask",
    "get_recurrent_dropout_mask_for_cell",
    "reset_dropout_mask",
    "reset_recurrent_dropout_mask",
    # of `keras.layers.Layer`
    "__call__",
    "_assert_input_compatibility",
    "_check_super_called",
    "_get_call_context",
    "_maybe_build",
    "_maybe_cast_inputs",
    "_maybe_reset_call_context",
    "_open_name_scope",
    "_resolve_and_populate_arg",
    "_set_mask_metadata",
    "dtype_policy",
    "input_dtype",
    "input_spec",
    "quantization_mode",
    "supports_masking",
)
