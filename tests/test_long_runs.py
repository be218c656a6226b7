"""Tests of long training runs and sequences in separate processes: compared with float64, with bounded memory."""

import pytest
from environment import processes


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_training_stays_within_rounding_of_float64(mode):
    code = """
        import sys
        from references.cudnn_rnn import Config
        from robustness import long_training
        config = Config(sys.argv[1], num_units=32, input_size=8, time=12, batch=16)
        long_training.check(config, num_steps=500, num_checkpoints=10)
        """
    processes.run_code(code, mode, **processes.WITH_TESTING)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "dtype"), [("lstm", "float32"), ("gru", "bfloat16")])
def test_memory_of_twenty_thousand_steps_is_linear(mode, dtype):
    code = """
        import sys
        from robustness import long_sequences
        long_sequences.check_memory(sys.argv[1], sys.argv[2], 20_000)
        long_sequences.check_results(sys.argv[1], sys.argv[2], 20_000)
        """
    # The oneDNN allocator keeps freed memory.
    processes.run_code(code, mode, dtype, TF_ENABLE_ONEDNN_OPTS="0", **processes.WITH_TESTING)
