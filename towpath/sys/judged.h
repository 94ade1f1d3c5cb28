// From what a file of the kernel says to a Finding. For the probes of this module.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <towpath/core/finding.h>
#include <towpath/core/format.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {

struct Judged {
  Verdict verdict = Verdict::unknown;
  std::string reason;
  std::string hint;
};

inline Finding judge(Finding question, Judged judged) {
  question.verdict = judged.verdict;
  question.reason = std::move(judged.reason);
  question.hint = std::move(judged.hint);
  return question;
}

/// Asks the text at `question.source`; unreadable is unknown.
template <typename Judge>
Finding ask_text(Finding question, Judge judge_text) {
  const auto text = read_text_file(question.source);
  if (!text.ok())
    return judge(std::move(question), {.reason = std::string(text.status().message())});
  Judged judged = judge_text(std::string_view(*text));
  return judge(std::move(question), std::move(judged));
}

inline Judged not_understood(std::string_view text) {
  return {.reason = cat("'", printable(trimmed(text)), "' is not understood")};
}

}  // namespace towpath::sys
