# What tools/hatch_build.py writes into the wheel as _build_info.py.

TENSORFLOW_VERSIONS: tuple[str, ...]
COMPILER: str
