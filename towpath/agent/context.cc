#include <utility>

#include <towpath/agent/context.h>
#include <towpath/core/format.h>

namespace towpath::agent {

AgentContext::AgentContext(const AgentOptions& given, AgentIdentity identity)
    : options(given), self(std::move(identity)), clock(*given.clock), sink(given.log) {
  log = telemetry::Log(sink, clock, cat("agent ", printable(self.name)));
}

Status AgentContext::why_not_open() const {
  if (!is_inherited()) return error(Code::not_ready, "the agent was shut down");
  return error(Code::not_ready, "this agent belongs to the process that this one was forked from",
               "make another one here");
}

}  // namespace towpath::agent
