// Messages made of parts.

#ifndef TF_RNN_OPS_CC_RNN_JOIN_H_
#define TF_RNN_OPS_CC_RNN_JOIN_H_

#include <locale>
#include <sstream>
#include <string>

namespace tf_rnn_ops::rnn {

// The parts of a message, one after the other, whatever the user's language.
template <typename... Part>
std::string Join(const Part&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  (text << ... << parts);
  return text.str();
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_JOIN_H_
