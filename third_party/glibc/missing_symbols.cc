// Symbols that headers of newer versions of glibc and libstdc++ use, and older
// versions lack. Each of our libraries has a copy, hidden by libtf_rnn_ops.lds.

#include <new>

extern "C" {

// glibc 2.32: whether the process is single-threaded, so that libstdc++ can
// count references without atomic instructions. Here it always uses atomics.
extern const char __libc_single_threaded;
const char __libc_single_threaded = false;

}  // extern "C"

namespace std {

// libstdc++ of GCC 11: called by `new` if an array has too many elements.
[[noreturn]] void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}

}  // namespace std
