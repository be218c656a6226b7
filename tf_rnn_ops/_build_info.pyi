# What tools/hatch_build.py writes into the wheel as _build_info.py.

TENSORFLOW_VERSIONS: tuple[str, ...]
COMPILER: str
# Why a library is missing, by its path in the package, such as "tensorflow_2_21/libtf_rnn_ops_gpu.so".
LEFT_OUT: dict[str, str]
