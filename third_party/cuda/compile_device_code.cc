// Compiles a CUDA source for several architectures, and writes a C++ source
// that defines a DeviceCode variable (//cc/gpu:device_code) with the results.
// Runs in the root of the workspace; include paths are relative to it.
//
//   compile_device_code LIBNVRTC SOURCE VARIABLE OUTPUT ARCHITECTURE...
//
// ARCHITECTURE is sm_XY for machine code, or compute_XY for PTX, which also
// runs on newer GPUs.

#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << "compile_device_code: " << message << std::endl;
  std::exit(1);
}

#define NVRTC_FUNCTIONS(F) \
  F(nvrtcCompileProgram)   \
  F(nvrtcCreateProgram)    \
  F(nvrtcDestroyProgram)   \
  F(nvrtcGetCUBIN)         \
  F(nvrtcGetCUBINSize)     \
  F(nvrtcGetErrorString)   \
  F(nvrtcGetPTX)           \
  F(nvrtcGetPTXSize)       \
  F(nvrtcGetProgramLog)    \
  F(nvrtcGetProgramLogSize)

// NVRTC's functions. Opened by path instead of linked: NVRTC looks for its
// second library in its own folder.
struct Nvrtc {
  explicit Nvrtc(const std::string& path) {
    // With a slash, dlopen does not search for the library.
    void* library = dlopen(("./" + path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) Fail(dlerror());
#define FIND(name)                                                \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) Fail(path + " has no function " #name);
    NVRTC_FUNCTIONS(FIND)
#undef FIND
  }

  void Check(nvrtcResult result, const std::string& call) const {
    if (result != NVRTC_SUCCESS) {
      Fail(call + " returned " + nvrtcGetErrorString(result));
    }
  }

#define DECLARE(name) decltype(&::name) name;
  NVRTC_FUNCTIONS(DECLARE)
#undef DECLARE
};

struct Architecture {
  explicit Architecture(const std::string& argument) : name(argument) {
    const std::size_t underscore = argument.find('_');
    const std::string kind = argument.substr(0, underscore);
    is_ptx = kind == "compute";
    if (!is_ptx && kind != "sm") Fail("unknown architecture " + argument);
    number = std::atoi(argument.c_str() + underscore + 1);
    if (number < 50) Fail("unknown architecture " + argument);
  }

  std::string name;
  bool is_ptx;
  int number;  // 89 for compute capability 8.9
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Functions without annotations are device functions, so headers shared with
// the host need no annotations.
const char* const kOptions[] = {
    "--std=c++17",
    "--device-as-default-execution-space",
    "--include-path=.",
    "--include-path=third_party/cuda/include",
};

std::string Log(const Nvrtc& nvrtc, nvrtcProgram program) {
  std::size_t size;
  nvrtc.Check(nvrtc.nvrtcGetProgramLogSize(program, &size),
              "nvrtcGetProgramLogSize");
  std::string log(size, '\0');
  nvrtc.Check(nvrtc.nvrtcGetProgramLog(program, log.data()),
              "nvrtcGetProgramLog");
  return log.substr(0, log.find('\0'));
}

// The image for one architecture. PTX ends with a null character.
std::string Image(const Nvrtc& nvrtc, nvrtcProgram program, bool is_ptx) {
  std::size_t size;
  nvrtc.Check(is_ptx ? nvrtc.nvrtcGetPTXSize(program, &size)
                     : nvrtc.nvrtcGetCUBINSize(program, &size),
              "the size's function");
  std::string image(size, '\0');
  nvrtc.Check(is_ptx ? nvrtc.nvrtcGetPTX(program, image.data())
                     : nvrtc.nvrtcGetCUBIN(program, image.data()),
              "the image's function");
  return image;
}

std::string Compile(const Nvrtc& nvrtc, const std::string& path,
                    const Architecture& architecture) {
  const std::string source = ReadFile(path);
  nvrtcProgram program;
  nvrtc.Check(nvrtc.nvrtcCreateProgram(&program, source.c_str(), path.c_str(),
                                       0, nullptr, nullptr),
              "nvrtcCreateProgram");
  const std::string target = "--gpu-architecture=" + architecture.name;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  const nvrtcResult result = nvrtc.nvrtcCompileProgram(
      program, static_cast<int>(options.size()), options.data());
  const std::string log = Log(nvrtc, program);
  if (!log.empty()) std::cerr << log;
  nvrtc.Check(result, "nvrtcCompileProgram for " + architecture.name);
  std::string image = Image(nvrtc, program, architecture.is_ptx);
  nvrtc.Check(nvrtc.nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
  return image;
}

void WriteBytes(const std::string& name, const std::string& bytes,
                std::ostream& output) {
  output << "alignas(16) constexpr unsigned char " << name << "[] = {";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 32 == 0) output << "\n";
    output << static_cast<int>(static_cast<unsigned char>(bytes[i])) << ",";
  }
  output << "\n};\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    Fail("usage: LIBNVRTC SOURCE VARIABLE OUTPUT ARCHITECTURE...");
  }
  const Nvrtc nvrtc(argv[1]);
  const std::string source = argv[2];
  const std::string variable = argv[3];
  const std::vector<Architecture> architectures(argv + 5, argv + argc);

  std::ofstream output(argv[4]);
  output << "#include \"cc/gpu/device_code.h\"\n\n"
         << "namespace tf_rnn_ops::gpu {\n"
         << "namespace {\n\n";
  for (const Architecture& architecture : architectures) {
    WriteBytes(architecture.name, Compile(nvrtc, source, architecture), output);
  }
  output << "constexpr DeviceImage images[] = {\n";
  for (const Architecture& architecture : architectures) {
    output << "    {" << architecture.number / 10 << ", "
           << architecture.number % 10 << ", "
           << (architecture.is_ptx ? "true, " : "false, ") << architecture.name
           << ", sizeof(" << architecture.name << ")},\n";
  }
  output << "};\n\n"
         << "}  // namespace\n\n"
         << "extern const DeviceCode " << variable << ";\n"
         << "const DeviceCode " << variable << " = {images, "
         << architectures.size() << "};\n\n"
         << "}  // namespace tf_rnn_ops::gpu\n";
  output.close();
  if (!output) Fail(std::string("cannot write ") + argv[4]);
}
