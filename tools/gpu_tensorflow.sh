#!/usr/bin/env bash
# Brings TensorFlow to a machine with a GPU of compute capability 9.0, Python 3.12 and PyTorch for CUDA 13, but without
# TensorFlow and network access, in pieces that each fit into one transfer:
#
#   pack FOLDER   here: downloads TensorFlow and the packages that are missing there, and makes FOLDER/piece-00, ...
#   add PIECE...  there: keeps pieces, or wheels to install, for `join`
#   join          there: checks and unpacks all, and prints commands that set the environment
#
# Left out are headers, parts that are loaded only when used, and GPU code for other GPUs. Environment variables:
#
#   PYTHON   interpreter (default: python3)
#   STORE    folder on the machine with the GPU, outside the checkout (default: /tmp/tf_rnn_ops_tensorflow)

source "$(dirname "$0")/shell.sh"

readonly PACKAGES=(tensorflow keras optree namex termcolor astunparse gast google-pasta protobuf)
readonly CUDA_PACKAGES=(nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-cuobjdump==13.5.37)
# The whole checkout travels with each piece: together 64 MiB.
readonly PIECE_BYTES=57000000
# Names that TensorFlow opens, and CUDA 13's files for them. libcusparse.so.12 and libcudnn.so.9 have the same name in both.
readonly LINKS=(libcublas.so.12:libcublas.so.13 libcublasLt.so.12:libcublasLt.so.13 libcufft.so.11:libcufft.so.12
  libcusolver.so.11:libcusolver.so.12)
python=${PYTHON:-python3}
store=${STORE:-/tmp/tf_rnn_ops_tensorflow}

# Reduces the GPU code in a library. Of each container, keeps the machine code for compute capability 9.0, or else the PTX.
# In .nv_fatbin, stores machine code as cuobjdump decompresses it, if it fits: xz makes it a quarter as large.
trim() {
  "$python" - "$@" <<'PROGRAM'
import pathlib, re, struct, subprocess, sys, tempfile
library, cuobjdump = map(pathlib.Path, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([cuobjdump.resolve(), "-xelf", "sm_90", library.resolve()], cwd=folder, check=True, capture_output=True)
    files = sorted(pathlib.Path(folder).iterdir(), key=lambda file: int(file.name.split(".")[-3]))
    machine_code = [file.read_bytes() for file in files]
sections = subprocess.run(["readelf", "-SW", library], check=True, capture_output=True, text=True).stdout
data = bytearray(library.read_bytes())
for name in (".nv_fatbin", ".rodata"):
    start, size = (int(x, 16) for x in re.search(re.escape(name) + r" +PROGBITS +\S+ (\S+) (\S+)", sections).groups())
    at = start - 1
    while (at := data.find(struct.pack("<IHH", 0xBA55ED50, 1, 16), at + 1, start + size)) >= 0:
        entry, end = at + 16, at + 16 + struct.unpack_from("<Q", data, at + 8)[0]
        entries = {}
        while entry < end:
            kind, header_size, code_size, architecture = struct.unpack_from("<HxxIQ12xI", data, entry)
            entries[kind, architecture] = data[entry : entry + header_size + code_size]
            entry += header_size + code_size
        kept = entries.get((2, 90)) or entries[1, 90]
        if name == ".nv_fatbin":
            code = machine_code.pop(0)
            assert struct.unpack_from("<I48xQ", kept, 4) == (64, len(code)), "unexpected GPU code"
            code += bytes(-len(code) % 8)
            if 64 + len(code) <= end - at - 16:
                struct.pack_into("<QI", kept, 8, len(code), 0)
                struct.pack_into("<Q8xQ", kept, 40, struct.unpack_from("<Q", kept, 40)[0] & ~0x2000, 0)
                kept[64:] = code
        struct.pack_into("<Q", data, at + 8, len(kept))
        data[at + 16 : end] = kept.ljust(end - at - 16, b"\0")
        at = end - 1
assert not machine_code, "not all GPU code was found"
library.write_bytes(data)
PROGRAM
}

pack() {
  local site="$1/site" wheels="$1/wheels" packages=("${CUDA_PACKAGES[@]}") size=0 number=0 name package wheel chunk bytes
  rm -rf "$site" "$wheels" "$1"/chunk-* "$1"/piece-*
  mkdir -p "$site/cuda"
  say "downloading"
  for package in "${PACKAGES[@]}"; do
    packages+=("$(grep --only-matching "^$package==[^ ;]*" "$REPOSITORY/requirements/tensorflow.txt" | tail -n 1)")
  done
  "$python" -m pip download --quiet --dest "$wheels" --no-deps --only-binary=:all: --python-version 3.12 \
    --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 "${packages[@]}"
  for wheel in "$wheels"/*.whl; do "$python" -m zipfile -e "$wheel" "$site"; done
  say "reducing the libraries"
  mv "$site/nvidia/cuda_runtime/lib/libcudart.so.12" "$site/cuda/"
  rm -r "$site"/tensorflow/{include,compiler/mlir/stablehlo/stablehlo_extension.so,compiler/tf2xla/ops/_xla_ops.so}
  # Imported by TensorFlow, but called only to profile another machine: an empty module does.
  rm "$site/tensorflow/python/profiler/internal/_pywrap_profiler_plugin.so"
  touch "$site/tensorflow/python/profiler/internal/_pywrap_profiler_plugin.py"
  find "$site" -name '*.so*' -type f -not -path '*/nvidia/*' -exec strip --strip-unneeded {} +
  chmod +x "$site/nvidia/cu13/bin/cuobjdump"
  for name in cc framework; do
    trim "$site/tensorflow/libtensorflow_$name.so.2" "$site/nvidia/cu13/bin/cuobjdump"
  done
  rm -r "$site/nvidia" "$site"/*.dist-info
  say "compressing, for about ten minutes"
  tar --create --sort=name --owner=0 --group=0 --directory "$site" . | split --bytes=32M --numeric-suffixes \
    --suffix-length=3 - "$1/chunk-"
  printf '%s\n' "$1"/chunk-* | xargs --max-args=1 --max-procs="$(nproc)" xz -9
  (cd "$1" && sha256sum chunk-*.xz >sums)
  for chunk in "$1"/chunk-*.xz; do
    bytes=$(stat --format=%s "$chunk")
    [ $((size += bytes)) -le "$PIECE_BYTES" ] || number=$((number + 1)) size=$bytes
    name=$(printf '%s/piece-%02d' "$1" "$number")
    mkdir -p "$name"
    cp "$1/sums" "$name/"
    mv "$chunk" "$name/"
  done
  say "made:"
  du --summarize --bytes "$1"/piece-*
}

add() {
  local each
  [ $# -gt 0 ] || fail "name the pieces to add"
  mkdir -p "$store"
  for each; do
    [ -e "$each" ] || fail "$each does not exist"
    if [ -d "$each" ]; then cp "$each"/* "$store/"; else cp "$each" "$store/"; fi
  done
  say "$store has $(find "$store" -name 'chunk-*.xz' | wc -l) of $(wc -l <"$store/sums") chunks"
}

join() {
  local site="$store/site" folders wheel link file
  [ -e "$store/sums" ] || fail "no piece was added to $store"
  (cd "$store" && sha256sum --check --quiet sums >&2) || fail "a piece is missing or damaged: add it again"
  rm -rf "$site" && mkdir -p "$site/cuda"
  (cd "$store" && "$python" -c "
import concurrent.futures, lzma, pathlib, sys
with concurrent.futures.ThreadPoolExecutor() as pool:
    for data in pool.map(lambda line: lzma.decompress(pathlib.Path(line.split()[1]).read_bytes()), open('sums')):
        sys.stdout.buffer.write(data)") | tar --extract --no-same-owner --directory "$site" || fail "cannot unpack the pieces"
  for wheel in "$store"/*.whl; do [ ! -e "$wheel" ] || "$python" -m zipfile -e "$wheel" "$site"; done
  mapfile -t folders < <("$python" -c "import glob, sys
print(*(folder for path in sys.path for folder in glob.glob(path + '/nvidia/*/lib')), sep='\n')")
  for link in "${LINKS[@]}"; do
    file=$(find "${folders[@]}" -maxdepth 1 -name "${link#*:}" -print -quit 2>/dev/null || true)
    [ -n "$file" ] || fail "no ${link#*:} in: ${folders[*]}"
    ln -sf "$file" "$site/cuda/${link%:*}"
  done
  echo "export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}"
  echo "export LD_LIBRARY_PATH=$(IFS=: && echo "$site/cuda:${folders[*]}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

case "${1:-}" in
pack) pack "$(realpath -m "${2:?a folder}")" ;;
add) add "${@:2}" ;;
join) join ;;
*) fail "usage: $0 pack FOLDER | add PIECE... | join" ;;
esac
