// What the headers of newer glibcs and libstdc++s use, and older ones do not
// have. Each of our libraries has its own; libtf_rnn_ops.lds hides them.

#include <new>

extern "C" {

// glibc 2.32: whether the process has one thread, so that libstdc++ need not
// count references with atomic instructions. It always does so here.
extern const char __libc_single_threaded;
const char __libc_single_threaded = false;

}  // extern "C"

namespace std {

// GCC 11's libstdc++: what `new` throws for an array of too many elements.
[[noreturn]] void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}

}  // namespace std
