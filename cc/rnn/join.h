// Builds messages from parts.

#ifndef TF_RNN_OPS_CC_RNN_JOIN_H_
#define TF_RNN_OPS_CC_RNN_JOIN_H_

#include <locale>
#include <sstream>
#include <string>

namespace tf_rnn_ops::rnn {

// Concatenates the parts, formatted in the classic locale.
template <typename... Part>
std::string Join(const Part&... parts) {
  // The default constructor would require GCC 9's libstdc++ if not inlined.
  std::ostringstream text(std::ios_base::out);
  text.imbue(std::locale::classic());
  (text << ... << parts);
  return text.str();
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_JOIN_H_
