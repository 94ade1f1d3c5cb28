#include <towpath/agent/agent.h>
#include <towpath/core/format.h>

namespace towpath::agent {

const Candidate* Explanation::chosen() const {
  for (const Candidate& candidate : candidates) {
    if (candidate.chosen) return &candidate;
  }
  return nullptr;
}

std::string Explanation::to_string() const {
  std::string out = cat(what, "\n");
  for (const Candidate& candidate : candidates) {
    const char* mark = candidate.chosen ? "* " : candidate.possible ? "+ " : "- ";
    out.append(cat("  ", mark, candidate.backend, ": ", candidate.reason));
    if (!candidate.path.empty()) out.append(cat("; ", candidate.path));
    if (candidate.estimate.count() > 0) {
      out.append(cat("; about ", candidate.estimate.count() / 1000, " us ",
                     candidate.measured ? "measured" : "declared"));
    }
    out.push_back('\n');
  }
  return out;
}

}  // namespace towpath::agent
