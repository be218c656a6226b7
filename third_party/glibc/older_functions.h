// glibc 2.34 moved some functions into libc.so.6, with new symbol versions.
// This selects the previous versions, which every glibc has.

#ifndef TF_RNN_OPS_THIRD_PARTY_GLIBC_OLDER_FUNCTIONS_H_
#define TF_RNN_OPS_THIRD_PARTY_GLIBC_OLDER_FUNCTIONS_H_

#include <features.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define TF_RNN_OPS_OLDER_FUNCTION(name, x86_64_version) \
  __asm__(".symver " #name "," #name "@GLIBC_" x86_64_version)
#elif defined(__GLIBC__) && defined(__aarch64__)
// The first glibc version for this architecture is 2.17.
#define TF_RNN_OPS_OLDER_FUNCTION(name, x86_64_version) \
  __asm__(".symver " #name "," #name "@GLIBC_2.17")
#else
#define TF_RNN_OPS_OLDER_FUNCTION(name, x86_64_version) static_assert(true)
#endif

#endif  // TF_RNN_OPS_THIRD_PARTY_GLIBC_OLDER_FUNCTIONS_H_
